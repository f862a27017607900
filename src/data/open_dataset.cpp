// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "data/array_dataset.h"
#include "data/dataset.h"
#include "data/text_files.h"
#include "data/token_cache.h"
#include "data/token_stream.h"

#include <algorithm>
#include <filesystem>
#include <utility>

namespace weft {
namespace {

namespace fs = std::filesystem;

bool is_array_file(const fs::path& path) {
  return path.extension() == ".npy" || path.extension() == ".safetensors";
}

bool is_token_file(const fs::path& path) { return path.extension() == ".bin"; }

// A file itself, or a folder's own files that are accepted, sorted.
std::vector<std::string> files_of(
    const std::vector<std::string>& paths, bool (*accepts)(const fs::path&)) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    if (!fs::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    std::vector<std::string> inside;
    for (const auto& entry : fs::directory_iterator(path)) {
      const bool hidden = entry.path().filename().string().starts_with('.');
      if (!hidden && entry.is_regular_file() && accepts(entry.path())) {
        inside.push_back(entry.path().string());
      }
    }
    std::sort(inside.begin(), inside.end());
    files.insert(files.end(), inside.begin(), inside.end());
  }
  return files;
}

DatasetKind kind_of(const std::string& path) {
  if (!fs::is_directory(path)) {
    return is_array_file(path)   ? DatasetKind::Arrays
           : is_token_file(path) ? DatasetKind::Tokens
                                 : DatasetKind::Text;
  }
  if (!files_of({path}, is_array_file).empty()) {
    return DatasetKind::Arrays;
  }
  return files_of({path}, is_token_file).empty() ? DatasetKind::Text
                                                 : DatasetKind::Tokens;
}

DatasetKind kind_of(const std::vector<std::string>& paths) {
  const DatasetKind kind = kind_of(paths.front());
  for (const std::string& path : paths) {
    WEFT_CHECK_USER(
        kind_of(path) == kind,
        paths.front(),
        " and ",
        path,
        " are data of different kinds. Give text, .bin files, or arrays, or "
        "say the kind");
  }
  return kind;
}

void check_paths(const std::vector<std::string>& paths) {
  WEFT_CHECK_USER(!paths.empty(), "no data: give a file or a folder");
  for (const std::string& path : paths) {
    WEFT_CHECK_USER(
        fs::exists(path),
        "cannot open ",
        path,
        ": there is no such file or folder");
    WEFT_CHECK_USER(
        !fs::is_directory(path) || !fs::is_empty(path),
        path,
        " is an empty folder. Give a file or a folder with data");
  }
}

std::unique_ptr<Dataset> open_tokens(
    const std::vector<std::string>& paths, const DatasetOptions& options) {
  WEFT_CHECK_USER(
      options.token_bytes == 2 || options.token_bytes == 4,
      "a token of a .bin file has 2 or 4 bytes (uint16 or uint32), not ",
      options.token_bytes);
  TokenStream stream;
  stream.token_bytes = options.token_bytes;
  for (const std::string& path : files_of(paths, is_token_file)) {
    MappedFile file(path);
    WEFT_CHECK_USER(
        file.size_bytes() % options.token_bytes == 0,
        path,
        " is cut short or of another dtype: its ",
        file.size_bytes(),
        " bytes are no whole number of tokens of ",
        options.token_bytes,
        " bytes");
    stream.add(std::move(file));
  }
  return make_stream_dataset(
      std::move(stream),
      options.sequence,
      options.vocabulary,
      options.vocabulary,
      {});
}

std::vector<std::string> notes_of(const TextFiles& files) {
  std::vector<std::string> notes;
  if (files.binary > 0) {
    notes.push_back(cat(files.binary, " binary files were left out"));
  }
  if (files.unreadable > 0) {
    notes.push_back(
        cat(files.unreadable, " files that cannot be read were left out"));
  }
  return notes;
}

std::unique_ptr<Dataset> open_text(
    const std::vector<std::string>& paths, const DatasetOptions& options) {
  const TextFiles files = find_text_files(paths, options.extensions);
  std::vector<std::string> notes = notes_of(files);
  if (!options.tokenizer.empty()) {
    const fs::path first = paths.front();
    const fs::path beside =
        fs::is_directory(first) ? first : fs::absolute(first).parent_path();
    Tokenized tokens =
        tokenize_files(files, options.tokenizer, beside.string());
    if (!tokens.made_again_because.empty()) {
      notes.push_back(
          cat("the token cache in ",
              beside.string(),
              " is made again: ",
              tokens.made_again_because));
    }
    if (tokens.cache.empty()) {
      notes.push_back(
          cat("tokens are kept in memory: ",
              beside.string(),
              " cannot be written"));
    }
    return make_stream_dataset(
        std::move(tokens.stream),
        options.sequence,
        tokens.vocabulary,
        options.vocabulary,
        std::move(notes));
  }
  TokenStream stream;
  stream.token_bytes = 1;
  for (const std::string& path : files.paths) {
    stream.add(MappedFile(path));
  }
  return make_stream_dataset(
      std::move(stream),
      options.sequence,
      256,
      options.vocabulary,
      std::move(notes));
}

}  // namespace

std::unique_ptr<Dataset> open_dataset(
    const std::vector<std::string>& paths, const DatasetOptions& options) {
  check_paths(paths);
  const DatasetKind kind =
      options.kind == DatasetKind::Auto ? kind_of(paths) : options.kind;
  try {
    switch (kind) {
      case DatasetKind::Arrays:
        return open_arrays(files_of(paths, is_array_file));
      case DatasetKind::Tokens:
        return open_tokens(paths, options);
      default:
        return open_text(paths, options);
    }
  } catch (const fs::filesystem_error& error) {
    throw UserError(cat("cannot read ", join(paths, ", "), ": ", error.what()));
  } catch (const UserError& error) {
    throw UserError(cat("data ", join(paths, ", "), ": ", error.what()));
  }
}

std::unique_ptr<Dataset> open_dataset(
    const std::string& path, const DatasetOptions& options) {
  return open_dataset(std::vector<std::string>{path}, options);
}

}  // namespace weft
