//! Reads what the merge of a pull request would hold.

use std::sync::Arc;

use super::joined::{SourceAt, rooted};
use super::{
    Cache, Error, ListedFiles, ParsedFile, assemble, chosen, ignore_file, parsed, refused_if_large, refused_rendering,
    varied,
};
use crate::rendering::{Inputs, Merge, OfMerge, RenderedSource, Rendering, encryption_errors};
use git::Reader;
use model::folder::below;
use model::id::CommitId;
use model::manifest::InputError;
use plan::pull_request::Candidate;
use source::Filter;

/// Reads the tree that a merge of `head` into `base` would have. Files are merged whole, by path and content.
///
/// The cache is only read: the accepted commit stays parsed however many pull requests are planned.
///
/// # Errors
/// As [`read_commit`](super::read_commit).
pub fn read_candidate(reader: &Reader, base: &CommitId, head: &CommitId, cache: &Cache) -> Result<Candidate, Error> {
    let fork = reader.merge_base(base, head)?;
    let listed = listed_merge(Merge { reader, fork: &fork, base, head }, &cache.rendering)?;
    read_merge(reader, (base, head), listed, cache, std::convert::identity)
}

/// Reads the tree that a merge of `head` into one of several sources would have: the others stay at their accepted commits. `base` is the
/// commit that joins those, `sources` what it joins, and `reader` finds the blobs of all of them.
///
/// # Errors
/// As [`read_joined`](super::read_joined).
pub fn read_joined_candidate(
    reader: &Reader,
    base: &CommitId,
    sources: &[SourceAt<'_>],
    (name, head): (&str, &CommitId),
    cache: &Cache,
) -> Result<Candidate, Error> {
    // What is merged with itself stays as it is.
    let head_of = |source: &SourceAt<'_>| if source.name == name { head.clone() } else { source.commit.clone() };
    let heads: Vec<CommitId> = sources.iter().map(head_of).collect();
    let fork_of = |(source, head): (&SourceAt<'_>, &CommitId)| {
        if source.name == name { source.reader.merge_base(source.commit, head) } else { Ok(source.commit.clone()) }
    };
    let forks = sources.iter().zip(&heads).map(fork_of).collect::<Result<Vec<CommitId>, git::Error>>()?;
    let mut all = ListedFiles::default();
    for ((source, head), fork) in sources.iter().zip(&heads).zip(&forks) {
        let merge = Merge { reader: source.reader, fork, base: source.commit, head };
        match listed_merge(merge, &cache.rendering) {
            Ok(listed) => all.add(source.name, listed),
            // Users get the errors of all sources at once.
            Err(Error::Refused(errors)) => all.errors.extend(errors.into_iter().map(|error| error.below(source.name))),
            Err(error) => return Err(source.named(error)),
        }
    }
    let mut candidate = read_merge(reader, (base, head), all, cache, rooted)?;
    candidate.conflicts = candidate.conflicts.iter().map(|path| below(name, path)).collect();
    Ok(candidate)
}

/// Lists the files of a merge, and has its folders rendered.
fn listed_merge<'a>(merge: Merge<'a>, rendering: &Rendering) -> Result<ListedFiles<OfMerge<'a>>, Error> {
    let Merge { reader, fork, base, head } = merge;
    let ignore_at = |commit: &CommitId| match ignore_file(reader, commit) {
        // The folder may have been added after the two branches diverged.
        Err(Error::Git(git::Error::PathMissing { .. })) if commit == fork => Ok(None),
        other => other,
    };
    let before = ignore_at(fork)?;
    let wanted = ignore_at(head)?;
    // Merged like a file: if the pull request did not change it, the accepted commit's version counts.
    let ignore = if before == wanted { ignore_at(base)? } else { wanted };
    let filter = Filter::new(ignore.as_deref());
    let listed = |commit: &CommitId| match reader.files(commit, &|path| filter.reads(path)) {
        Err(git::Error::PathMissing { .. }) if commit == fork => Ok(git::Listing::default()),
        other => other.map_err(refused_if_large),
    };
    // Nothing was accepted since the branches diverged: the head is the merge, and one listing is enough.
    let merged = if fork == base {
        git::Merged { listing: listed(head)?, conflicts: Vec::new() }
    } else {
        git::merged(listed(fork)?, listed(base)?, listed(head)?)
    };
    let (selection, mut wanted) = chosen(merged.listing.files, ignore.as_deref(), rendering);
    let mut errors = merged.listing.errors;
    let mut inputs = Inputs::new(OfMerge::new(merge, merged.conflicts.into_iter().collect()), filter);
    let rendered = rendering.render(&mut inputs, &selection.markers, &mut errors).map_err(refused_rendering)?;
    wanted.extend(rendered.wanted());
    Ok(ListedFiles { selection, wanted, sources: vec![RenderedSource::only(inputs, rendered)], errors })
}

/// Parses what was listed. `finish` is applied to each file that was parsed.
fn read_merge(
    reader: &Reader,
    (base, head): (&CommitId, &CommitId),
    listed: ListedFiles<OfMerge<'_>>,
    cache: &Cache,
    finish: fn(ParsedFile) -> ParsedFile,
) -> Result<Candidate, Error> {
    let ListedFiles { selection, wanted, sources, mut errors } = listed;
    let with_results = cache.rendering.reader(reader)?;
    let mut files = parsed(&with_results, wanted, &cache.parsed, &source::PULL, &mut errors)?;
    errors.extend(encryption_errors(sources.iter().map(|source| &source.rendered), &files));
    for source in &sources {
        files = source.rendered.without_hooks(files);
    }
    let files = files.into_iter().map(finish).collect();
    let mut tree = assemble(Some(head.clone()), &selection, files, errors)?;
    let parse = |wanted, errors: &mut Vec<InputError>| {
        let files = parsed(&cache.rendering.reader(reader)?, wanted, &cache.parsed, &source::PULL, errors)?;
        Ok(files.into_iter().map(finish).collect())
    };
    varied::add(&mut tree, &cache.rendering, &sources, parse).map_err(refused_rendering)?;
    let conflicts = sources.into_iter().flat_map(|source| source.inputs.into_lister().conflicts).collect();
    Ok(Candidate { base: base.clone(), head: head.clone(), tree: Arc::new(tree), conflicts })
}
