//! Has a program render one folder: which files it may read, and how what it prints is divided.

use std::sync::Arc;

use super::{Error, INPUT_BYTES_MAX, Inputs, Lister, PART_BYTES_MAX, WantedFolder};
use model::manifest::InputError;
use model::rendering::Renderer;
use render::{InputFile, Job, Program};

/// What became of a folder.
pub(super) enum FolderOutcome {
    /// The parts of its result.
    Rendered(Vec<Vec<u8>>),
    /// The folder is wrong.
    Refused(Box<InputError>),
    /// The folder or a busy machine is the cause.
    Unclear(Box<InputError>),
}

/// Renders one folder.
///
/// # Errors
/// The files cannot be read, or a program cannot do its work, whatever the folder.
pub(super) fn rendered<L: Lister>(
    one: &WantedFolder,
    programs: &[(Renderer, Program)],
    inputs: &Inputs<L>,
) -> Result<FolderOutcome, Error> {
    let folder = &one.folder;
    let read = match read(one, inputs)? {
        Ok(read) => read,
        Err(error) => return Ok(FolderOutcome::Refused(error)),
    };
    let program = programs.iter().find(|(renderer, _)| *renderer == folder.renderer());
    let (_, program) = program.expect("the programs of all missing folders were found");
    let values = one.values.as_ref().map(|values| values.path.as_str());
    let job = match &folder.release {
        Some(release) => Job::Chart { release, values },
        None => Job::Kustomization(&folder.path),
    };
    match program.render(job, &read) {
        Ok(printed) => Ok(match divided(folder.renderer(), printed, &read) {
            Ok(parts) => FolderOutcome::Rendered(parts),
            Err((message, hint)) => FolderOutcome::Refused(Box::new(one.complaint(message, hint))),
        }),
        Err(error) if error.is_of_the_folder() => {
            let said = source::hide_secrets(&error.to_string(), read.iter().map(|input| input.content.as_slice()));
            let complaint = Box::new(one.complaint(render::shortened(said), ""));
            Ok(if error.may_be_of_the_machine() {
                FolderOutcome::Unclear(complaint)
            } else {
                FolderOutcome::Refused(complaint)
            })
        }
        Err(error) => Err(error.into()),
    }
}

/// Divides what a program printed. The error is a message and what to do.
fn divided(
    renderer: Renderer,
    mut printed: Vec<u8>,
    read: &[InputFile],
) -> Result<Vec<Vec<u8>>, (String, &'static str)> {
    let inputs = read.iter().map(|input| (&*input.path, input.content.as_slice()));
    match renderer {
        Renderer::Kustomize => printed = source::with_encrypted_files(printed, inputs)?,
        Renderer::Helm => source::encrypted_value_in_chart(&printed, inputs).map_or(Ok(()), Err)?,
    }
    let parts = parts(&printed);
    let largest = parts.iter().map(Vec::len).max().unwrap_or_default();
    if largest as u64 > git::BLOB_SIZE_MAX_BYTES {
        let message = format!("an object of the result has {largest} bytes, the limit is {}", git::BLOB_SIZE_MAX_BYTES);
        return Err((message, "no cluster takes an object of that size"));
    }
    Ok(parts)
}

/// Reads the files that a program may read; the inner error refuses the commit.
fn read<L: Lister>(
    one: &WantedFolder,
    inputs: &Inputs<L>,
) -> Result<Result<Vec<InputFile>, Box<InputError>>, git::Error> {
    let mut read = Vec::with_capacity(one.files.len());
    let mut bytes = 0;
    for (path, blob) in one.files.iter() {
        let filled = one.values.as_ref().filter(|values| *values.path == **path);
        let content = match filled {
            Some(values) => values.content.to_vec(),
            None => match inputs.blob(blob)?.into_content(path) {
                Ok(content) => content,
                Err(error) => return Ok(Err(error)),
            },
        };
        if one.folder.renderer() == Renderer::Kustomize
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
        let last_within = rest[..PART_BYTES_MAX].windows(BORDER.len()).rposition(|at| at == BORDER);
        let border = last_within.or_else(|| rest.windows(BORDER.len()).position(|at| at == BORDER));
        let Some(at) = border else { break };
        parts.push(rest[..=at].to_vec());
        rest = &rest[at + 1..];
    }
    parts.push(rest.to_vec());
    parts.retain(|part| !part.trim_ascii().is_empty());
    parts
}
