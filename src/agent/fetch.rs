//! Orders and objects, fetched by their digests.

use futures::future::join_all;
use http::Method;
use http_body_util::BodyExt as _;

use super::connect::{Error, Requests};
use crate::model::id::Digest;
use crate::wire::{self, FetchObjects, FetchedObject, Frames, OBJECTS_PATH, ORDERS_PATH};

/// What a fetch brought.
pub(super) enum Fetched {
    /// Orders as they came, or why one did not.
    Orders(Vec<(Digest, Result<Vec<u8>, Error>)>),
    /// The digests that were asked for, and the objects that the server has of them.
    Objects(Vec<Digest>, Vec<FetchedObject>),
}

/// Fetches orders, each by a request of its own.
pub(super) async fn fetch_orders(requests: Requests, digests: Vec<Digest>) -> Result<Fetched, Error> {
    let one = |digest: Digest| {
        let mut requests = requests.clone();
        async move {
            let fetched = async {
                let answer = requests.send(Method::GET, &format!("{ORDERS_PATH}{digest}"), Vec::new()).await?;
                let body = requests.body(answer).await?;
                wire::inflate(&body).map_err(|source| requests.unreadable(source))
            };
            let fetched = fetched.await;
            (digest, fetched)
        }
    };
    Ok(Fetched::Orders(join_all(digests.into_iter().map(one)).await))
}

/// Fetches objects, all by one request.
pub(super) async fn fetch_objects(mut requests: Requests, digests: Vec<Digest>) -> Result<Fetched, Error> {
    let body = wire::pack(&FetchObjects { digests: digests.clone() }).map_err(|source| requests.unreadable(source))?;
    let mut stream = requests.send(Method::POST, OBJECTS_PATH, body).await?.into_body();
    let (mut frames, mut objects) = (Frames::default(), Vec::new());
    while let Some(frame) = stream.frame().await {
        let frame = frame.map_err(|error| requests.unreachable(error.to_string()))?;
        if let Some(bytes) = frame.data_ref() {
            frames.push(bytes);
        }
        while let Some(object) = frames.take().map_err(|source| requests.unreadable(source))? {
            objects.push(object);
        }
    }
    frames.finish().map_err(|source| requests.unreadable(source))?;
    Ok(Fetched::Objects(digests, objects))
}
