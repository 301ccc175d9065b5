//! What is in a repository, and which of it a model is.

use serde_json::Value;

use super::name::{is_hash, is_safe_path};
use super::role::{quant_of, split_of};
use super::{HubError, Role};
use crate::units::Bytes;

/// Where no quantisation is asked for, the first of these that is there; without any, the first file by name.
const DEFAULTS: [&str; 8] = ["Q4_K_M", "Q4_K_XL", "Q4_K_S", "Q4_0", "Q5_K_M", "Q6_K", "Q8_0", "MXFP4"];

/// A file of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepoFile {
    /// Its path in the repository.
    pub name: String,
    /// How long it is.
    pub bytes: Bytes,
    /// What it is for.
    pub role: Role,
    /// The hash that its content is kept under: SHA-256 of large files, git's SHA-1 of others.
    pub hash: String,
}

impl RepoFile {
    /// The quantisation that its name tells.
    #[must_use]
    pub fn quant(&self) -> Option<&str> {
        quant_of(&self.name)
    }
}

/// The files of a repository at one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    pub(super) repo: String,
    /// The branch or tag that was asked for.
    pub(super) revision: String,
    pub(super) commit: String,
    /// By name.
    pub(super) files: Vec<RepoFile>,
    /// It is what the cache has of it.
    pub(super) cached: bool,
}

impl Listing {
    /// Reads the hub's answer.
    pub(super) fn read((repo, revision): (&str, &str), place: &str, answer: &[u8]) -> Result<Self, HubError> {
        let bad = |why: String| HubError::BadReply { place: place.to_owned(), why };
        let answer: Value = serde_json::from_slice(answer)
            .map_err(|error| bad(format!("the list of files is no JSON: {error}")))?;
        let commit = answer["sha"].as_str().filter(|sha| is_hash(sha, &[40, 64]));
        let commit = commit.ok_or_else(|| bad("the list of files names no commit".to_owned()))?;
        let siblings = answer["siblings"].as_array();
        let siblings = siblings.ok_or_else(|| bad("the answer has no list of files".to_owned()))?;
        let mut files = Vec::with_capacity(siblings.len());
        for sibling in siblings {
            let name = sibling["rfilename"].as_str();
            let name = name.ok_or_else(|| bad("a file without a name is listed".to_owned()))?;
            if !is_safe_path(name) {
                return Err(HubError::HostileName { repo: repo.to_owned(), name: name.to_owned() });
            }
            let lfs = &sibling["lfs"];
            let large = lfs["sha256"].as_str().or_else(|| lfs["oid"].as_str());
            let hash = match large {
                Some(hash) => Some(hash).filter(|hash| is_hash(hash, &[64])),
                None => sibling["blobId"].as_str().filter(|hash| is_hash(hash, &[40])),
            };
            let hash = hash.ok_or_else(|| bad(format!("{name} is listed without a hash")))?;
            let bytes = lfs["size"].as_u64().or_else(|| sibling["size"].as_u64());
            let bytes = bytes.ok_or_else(|| bad(format!("{name} is listed without a size")))?;
            files.push(RepoFile {
                name: name.to_owned(),
                bytes: Bytes(bytes),
                role: Role::of(name),
                hash: hash.to_owned(),
            });
        }
        Ok(Self::new((repo, revision), commit, files, false))
    }

    pub(super) fn new(
        (repo, revision): (&str, &str),
        commit: &str,
        mut files: Vec<RepoFile>,
        cached: bool,
    ) -> Self {
        files.sort_by(|a, b| a.name.cmp(&b.name));
        files.dedup_by(|a, b| a.name == b.name);
        let revision = revision.to_owned();
        Self { repo: repo.to_owned(), revision, commit: commit.to_owned(), files, cached }
    }

    /// `user/repo`.
    #[must_use]
    pub fn repo(&self) -> &str {
        &self.repo
    }

    /// The commit.
    #[must_use]
    pub fn commit(&self) -> &str {
        &self.commit
    }

    /// All files, by name. Offline, those that are in the cache.
    #[must_use]
    pub fn files(&self) -> &[RepoFile] {
        &self.files
    }

    /// The files with a role: drafts, heads and other companions of the model.
    pub fn with_role(&self, role: Role) -> impl Iterator<Item = &RepoFile> {
        self.files.iter().filter(move |file| file.role == role)
    }

    /// The files of a model: one, or all parts of a split one in order. Upper and lower case are the same.
    ///
    /// Without a quantisation it is Q4_K_M; where that is not there, Q4_K_XL, Q4_K_S, Q4_0, Q5_K_M, Q6_K, Q8_0 or
    /// MXFP4; where none of them is, the first GGUF file by name. Projectors, drafts and importance matrices are never it.
    ///
    /// # Errors
    /// There is no such model, or a part of it is missing.
    pub fn model(&self, quant: Option<&str>) -> Result<Vec<&RepoFile>, HubError> {
        let models = self.first_parts();
        let first = match quant {
            Some(quant) => *matching(&models, quant).ok_or_else(|| HubError::NoSuchQuant {
                repo: self.repo.clone(),
                quant: quant.to_owned(),
                there: models.iter().map(|file| file.quant().unwrap_or(&file.name).to_owned()).collect(),
            })?,
            None => *DEFAULTS
                .iter()
                .find_map(|quant| matching(&models, quant))
                .or_else(|| models.first())
                .ok_or_else(|| HubError::NoModel { repo: self.repo.clone(), files: self.files.len() })?,
        };
        self.set(first)
    }

    /// The models; of a split one, the part with the lowest number stands for all.
    pub(super) fn first_parts(&self) -> Vec<&RepoFile> {
        let mut models: Vec<&RepoFile> = Vec::new();
        for file in self.with_role(Role::Model) {
            if models.last().is_none_or(|last| !same_set(&last.name, &file.name)) {
                models.push(file);
            }
        }
        models
    }

    /// The file with exactly this name, and the other parts if it is one of a split model.
    ///
    /// # Errors
    /// There is no such file, or a part of the model is missing.
    pub fn named(&self, name: &str) -> Result<Vec<&RepoFile>, HubError> {
        let file = self.files.iter().find(|file| file.name == name).ok_or_else(|| HubError::NoSuchFile {
            repo: self.repo.clone(),
            file: name.to_owned(),
            there: self.with_role(Role::Model).map(|file| file.name.clone()).collect(),
        })?;
        self.set(file)
    }

    /// All parts of the model that `part` is one of.
    fn set(&self, part: &RepoFile) -> Result<Vec<&RepoFile>, HubError> {
        let Some(split) = split_of(&part.name) else {
            return Ok(self.files.iter().filter(|file| file.name == part.name).collect());
        };
        let start = &part.name[..part.name.len() - ".gguf".len() - split.suffix];
        let name = |number: usize| format!("{start}-{number:05}-of-{:05}.gguf", split.count);
        let find = |number: usize| self.files.iter().find(|file| file.name == name(number));
        let found: Vec<&RepoFile> = (1..=split.count).filter_map(find).collect();
        if found.len() == split.count {
            return Ok(found);
        }
        let missing = (1..=split.count).filter(|number| find(*number).is_none()).map(name);
        Err(HubError::IncompleteSet {
            file: part.name.clone(),
            parts: split.count,
            missing: missing.collect(),
        })
    }
}

fn same_set(a: &str, b: &str) -> bool {
    let start = |name: &str| {
        split_of(name)
            .map(|split| (split.count, name[..name.len() - ".gguf".len() - split.suffix].to_owned()))
    };
    start(a).is_some_and(|a| Some(a) == start(b))
}

/// The first model that is exactly in `quant`; else the first whose name has it between separators: `Q4_K_XL` is in
/// `UD-Q4_K_XL`.
fn matching<'a, 'f>(models: &'a [&'f RepoFile], quant: &str) -> Option<&'a &'f RepoFile> {
    let exact =
        models.iter().find(|file| file.quant().is_some_and(|found| found.eq_ignore_ascii_case(quant)));
    exact.or_else(|| models.iter().find(|file| has_between_separators(&file.name, quant)))
}

fn has_between_separators(name: &str, quant: &str) -> bool {
    let (name, quant) = (name.to_ascii_lowercase(), quant.to_ascii_lowercase());
    let edge = |c: Option<char>| c.is_none_or(|c| matches!(c, '-' | '.' | '/'));
    name.match_indices(&quant).any(|(at, found)| {
        edge(name[..at].chars().next_back()) && edge(name[at + found.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(names: &[&str]) -> Listing {
        let file = |name: &&str| RepoFile {
            name: (*name).to_owned(),
            bytes: Bytes(1),
            role: Role::of(name),
            hash: "0".repeat(64),
        };
        Listing::new(("u/r", "main"), &"0".repeat(40), names.iter().map(file).collect(), false)
    }

    fn names(found: Result<Vec<&RepoFile>, HubError>) -> Vec<String> {
        found.unwrap().into_iter().map(|file| file.name.clone()).collect()
    }

    #[test]
    fn the_quantisation_is_found_in_any_case() {
        let all = listing(&[
            "m-BF16.gguf",
            "m-Q4_K_M.gguf",
            "m-q8_0.gguf",
            "m-UD-Q4_K_XL.gguf",
            "mmproj-Q5_0.gguf",
        ]);
        assert_eq!(names(all.model(Some("q4_k_m"))), ["m-Q4_K_M.gguf"]);
        assert_eq!(names(all.model(Some("Q8_0"))), ["m-q8_0.gguf"]);
        assert_eq!(names(all.model(Some("Q4_K_XL"))), ["m-UD-Q4_K_XL.gguf"]);
        assert_eq!(names(all.model(None)), ["m-Q4_K_M.gguf"]);
        let error = all.model(Some("Q5_0")).unwrap_err().to_string();
        assert_eq!(error, "u/r: there is no model in Q5_0; there are BF16, Q4_K_M, UD-Q4_K_XL, q8_0");
        assert!(all.model(Some("Q4")).is_err(), "half a word is none");
        let both = listing(&["m-UD-Q4_K_M.gguf", "m-Q4_K_M.gguf"]);
        assert_eq!(names(both.model(None)), ["m-Q4_K_M.gguf"], "the exact one");
    }

    #[test]
    fn without_the_usual_one_the_order_is_the_stated_one() {
        let all = listing(&["m-BF16.gguf", "m-Q8_0.gguf", "m-Q6_K.gguf"]);
        assert_eq!(names(all.model(None)), ["m-Q6_K.gguf"]);
        assert_eq!(names(listing(&["b-IQ1_S.gguf", "a-F16.gguf"]).model(None)), ["a-F16.gguf"]);
        assert_eq!(
            names(listing(&["mmproj-F16.gguf", "mtp-x-Q4_K_M.gguf", "x.gguf"]).model(None)),
            ["x.gguf"]
        );
        let error =
            listing(&["mmproj-F16.gguf", "MTP/a-Q4_K_M.gguf", "imatrix.gguf"]).model(None).unwrap_err();
        assert!(matches!(error, HubError::NoModel { files: 3, .. }), "{error}");
    }

    #[test]
    fn split_models_come_whole() {
        let parts = [
            "q/m-Q4_K_M-00002-of-00003.gguf",
            "q/m-Q4_K_M-00001-of-00003.gguf",
            "q/m-Q4_K_M-00003-of-00003.gguf",
        ];
        let all = listing(&[parts[0], parts[1], parts[2], "m-Q8_0.gguf"]);
        let wanted = [parts[1], parts[0], parts[2]];
        assert_eq!(names(all.model(None)), wanted);
        assert_eq!(names(all.named(parts[2])), wanted, "by any part");
        let error = listing(&parts[..2]).model(None).unwrap_err().to_string();
        assert!(error.contains("these are not there: q/m-Q4_K_M-00003-of-00003.gguf"), "{error}");
        let error = listing(&["m-Q8_0.gguf"]).named("x.gguf").unwrap_err().to_string();
        assert_eq!(error, "u/r: there is no file `x.gguf`; its GGUF files m-Q8_0.gguf");
    }

    fn read(siblings: &str) -> Result<Listing, HubError> {
        let answer = format!("{{\"sha\": \"{}\", \"siblings\": [{siblings}]}}", "ab".repeat(20));
        Listing::read(("u/r", "main"), "the hub", answer.as_bytes())
    }

    #[test]
    fn the_hubs_answer_is_checked() {
        let lfs = format!(
            "{{\"rfilename\": \"m.gguf\", \"size\": 7, \"blobId\": \"{}\", \"lfs\": {{\"sha256\": \"{}\", \"size\": 7}}}}",
            "cd".repeat(20),
            "ef".repeat(32)
        );
        let plain =
            format!("{{\"rfilename\": \"README.md\", \"size\": 3, \"blobId\": \"{}\"}}", "cd".repeat(20));
        let listing = read(&format!("{lfs}, {plain}")).unwrap();
        assert_eq!(listing.commit(), "ab".repeat(20));
        assert_eq!((listing.files()[1].bytes, listing.files()[1].hash.len()), (Bytes(7), 64));
        assert_eq!((listing.files()[0].bytes, listing.files()[0].hash.len()), (Bytes(3), 40));
        for name in ["../m.gguf", "/m.gguf", "a\\\\b.gguf", "a/../../m.gguf"] {
            let error = read(&lfs.replace("m.gguf", name)).unwrap_err();
            assert!(matches!(error, HubError::HostileName { .. }), "{name}: {error}");
        }
        for (from, to) in [("efef", "../x"), ("\"size\": 7", "\"size\": -1"), ("rfilename", "name")] {
            assert!(matches!(read(&lfs.replace(from, to)), Err(HubError::BadReply { .. })), "{from}");
        }
        assert!(Listing::read(("u/r", "main"), "the hub", b"<html>").is_err());
        assert!(Listing::read(("u/r", "main"), "the hub", br#"{"sha": "../../x", "siblings": []}"#).is_err());
    }
}
