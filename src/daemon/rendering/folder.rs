//! Has a program render one folder: which files it may read, and how what it prints is divided.

use std::sync::Arc;

use super::{Error, INPUT_BYTES_MAX, Inputs, Lister, PART_BYTES_MAX, WantedFolder};
use crate::git;
use crate::model::manifest::InputError;
use crate::model::rendering::Renderer;
use crate::render::{self, InputFile, Job, Program};
use crate::source;

/// Renders one folder to its parts; the inner error refuses the commit.
pub(super) fn rendered<L: Lister>(
    one: &WantedFolder,
    programs: &[(Renderer, Program)],
    inputs: &Inputs<L>,
) -> Result<Result<Vec<Vec<u8>>, Box<InputError>>, Error> {
    let folder = &one.folder;
    let read = match read(one, inputs)? {
        Ok(read) => read,
        Err(error) => return Ok(Err(error)),
    };
    let program = programs.iter().find(|(renderer, _)| *renderer == folder.renderer);
    let (_, program) = program.expect("the programs of all missing folders were found");
    let values = one.values.as_ref().map(|values| values.path.as_str());
    let job = Job { folder: &folder.path, release: &folder.release, values, inputs: &read };
    match program.render(job) {
        Ok(printed) => {
            let parts = parts(&printed);
            let largest = parts.iter().map(Vec::len).max().unwrap_or_default();
            if largest as u64 > git::BLOB_SIZE_MAX_BYTES {
                let message =
                    format!("an object of the result has {largest} bytes, the limit is {}", git::BLOB_SIZE_MAX_BYTES);
                return Ok(Err(Box::new(one.complaint(message, "no cluster takes an object of that size"))));
            }
            Ok(Ok(parts))
        }
        Err(error) if error.is_of_the_folder() => {
            let said = source::hide_secrets(&error.to_string(), read.iter().map(|input| input.content.as_slice()));
            Ok(Err(Box::new(one.complaint(render::shortened(said), ""))))
        }
        Err(error) => Err(error.into()),
    }
}

/// Reads the files that a program may read; the inner error refuses the commit.
fn read<L: Lister>(
    one: &WantedFolder,
    inputs: &Inputs<L>,
) -> Result<Result<Vec<InputFile>, Box<InputError>>, git::Error> {
    let (mut read, mut bytes) = (Vec::with_capacity(one.files.len()), 0);
    for (path, blob) in one.files.iter() {
        let filled = one.values.as_ref().filter(|values| *values.path == **path);
        let content = match filled {
            Some(values) => values.content.to_vec(),
            None => match inputs.blob(blob)?.into_content(path) {
                Ok(content) => content,
                Err(error) => return Ok(Err(error)),
            },
        };
        if one.folder.renderer == Renderer::Kustomize
            && let Some(error) = source::refused_input(path, &content)
        {
            return Ok(Err(Box::new(error)));
        }
        bytes += content.len();
        if bytes > INPUT_BYTES_MAX {
            let message =
                format!("the files that may be read to render this folder have more than {INPUT_BYTES_MAX} bytes");
            return Ok(Err(Box::new(one.complaint(message, "move what is not part of it elsewhere"))));
        }
        read.push(InputFile { path: Arc::clone(path), content });
    }
    Ok(Ok(read))
}

/// Divides an output between documents into parts of at most [`PART_BYTES_MAX`], unless one document is larger.
pub(super) fn parts(printed: &[u8]) -> Vec<Vec<u8>> {
    const BORDER: &[u8] = b"\n---\n";
    let mut parts = Vec::new();
    let mut rest = printed;
    while rest.len() > PART_BYTES_MAX {
        let border = |range: &[u8]| range.windows(BORDER.len()).rposition(|at| at == BORDER);
        let first = || rest.windows(BORDER.len()).position(|at| at == BORDER);
        let Some(at) = border(&rest[..PART_BYTES_MAX]).or_else(first) else { break };
        parts.push(rest[..=at].to_vec());
        rest = &rest[at + 1..];
    }
    parts.push(rest.to_vec());
    parts.retain(|part| !part.trim_ascii().is_empty());
    parts
}
