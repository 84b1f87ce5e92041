//! Clusters that lead to one API server under several names: one of them is delivered to, and the others are errors. Pure.

use std::collections::{BTreeMap, BTreeSet};

use model::id::ClusterName;

/// The server that a cluster leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReachedServer {
    /// The uid of its Namespace `kube-system`.
    pub uid: String,
    /// The cluster was delivered to there before.
    pub is_known: bool,
}

/// The servers that clusters lead to.
#[derive(Debug, Default)]
pub struct ReachedServers {
    servers: BTreeMap<ClusterName, ReachedServer>,
    clusters: BTreeMap<String, BTreeSet<ClusterName>>,
    /// Clusters that were not known to lead where they lead.
    new: BTreeSet<ClusterName>,
}

impl ReachedServers {
    /// Returns the server that a cluster leads to.
    pub fn of(&self, cluster: &ClusterName) -> Option<&ReachedServer> {
        self.servers.get(cluster)
    }

    /// Takes the clusters that were not known to lead where they lead.
    pub fn take_new(&mut self) -> BTreeSet<ClusterName> {
        std::mem::take(&mut self.new)
    }

    /// Notes where a cluster leads to, or that it is not known or left. Returns the clusters for which that may change what
    /// [`ReachedServers::first`] says.
    pub fn set(&mut self, cluster: &ClusterName, server: Option<ReachedServer>) -> BTreeSet<ClusterName> {
        if server.as_ref().is_some_and(|server| !server.is_known) {
            self.new.insert(cluster.clone());
        } else {
            self.new.remove(cluster);
        }
        let before = self.servers.get(cluster);
        if before == server.as_ref() {
            return BTreeSet::new();
        }
        let mut concerned = BTreeSet::from([cluster.clone()]);
        if let Some(uid) = before.map(|before| before.uid.clone())
            && let Some(there) = self.clusters.get_mut(&uid)
        {
            concerned.extend(there.iter().cloned());
            there.remove(cluster);
            if there.is_empty() {
                self.clusters.remove(&uid);
            }
        }
        if let Some(server) = server {
            let there = self.clusters.entry(server.uid.clone()).or_default();
            there.insert(cluster.clone());
            concerned.extend(there.iter().cloned());
            self.servers.insert(cluster.clone(), server);
        } else {
            self.servers.remove(cluster);
        }
        concerned
    }

    /// Returns the other cluster that is delivered to on a cluster's server: the one that was before, else the first by name.
    pub fn first(&self, cluster: &ClusterName) -> Option<&ClusterName> {
        let there = self.clusters.get(&self.servers.get(cluster)?.uid)?;
        let first = there.iter().min_by_key(|of| {
            let is_new = self.servers.get(*of).is_none_or(|server| !server.is_known);
            (is_new, *of)
        });
        first.filter(|first| *first != cluster)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m7_one_name_of_a_server_is_delivered_to() {
        // The clusters with their servers, and whether they were delivered to there; who is refused, and for whom.
        type Row =
            (&'static str, &'static [(&'static str, &'static str, bool)], &'static [(&'static str, &'static str)]);
        let rows: [Row; 6] = [
            ("servers of their own", &[("a", "1", false), ("b", "2", false)], &[]),
            ("both new: by name", &[("b", "1", false), ("a", "1", false)], &[("b", "a")]),
            ("the second by name was first", &[("a", "1", false), ("b", "1", true)], &[("a", "b")]),
            ("a store of before, both known", &[("a", "1", true), ("b", "1", true)], &[("b", "a")]),
            ("three", &[("a", "1", false), ("b", "1", true), ("c", "1", false)], &[("a", "b"), ("c", "b")]),
            ("the first leads elsewhere now", &[("a", "1", true), ("b", "1", false), ("a", "2", false)], &[]),
        ];
        for (name, clusters, refused) in rows {
            let mut servers = ReachedServers::default();
            for (cluster, uid, is_known) in clusters {
                servers.set(&(*cluster).into(), Some(ReachedServer { uid: (*uid).to_owned(), is_known: *is_known }));
            }
            let found = ["a", "b", "c"]
                .into_iter()
                .filter_map(|cluster| Some((cluster.to_owned(), servers.first(&cluster.into())?.to_string())));
            let wanted = refused.iter().map(|(one, other)| ((*one).to_owned(), (*other).to_owned()));
            assert_eq!(found.collect::<Vec<_>>(), wanted.collect::<Vec<_>>(), "{name}");
        }
    }

    #[test]
    fn m7_who_is_concerned_by_a_change() {
        let server = |uid: &str| Some(ReachedServer { uid: uid.to_owned(), is_known: false });
        let names = |names: &[&str]| names.iter().map(|name| ClusterName::from(*name)).collect::<BTreeSet<_>>();
        let mut servers = ReachedServers::default();
        assert_eq!(servers.set(&"a".into(), server("1")), names(&["a"]));
        assert_eq!(servers.set(&"b".into(), server("1")), names(&["a", "b"]));
        assert_eq!(servers.set(&"b".into(), server("1")), names(&[]));
        assert_eq!(servers.set(&"a".into(), None), names(&["a", "b"]));
        assert_eq!(servers.first(&"b".into()), None);
    }
}
