// SPDX-License-Identifier: Apache-2.0
// Samples from disk, mapped into memory: nothing is read before it is asked
// for, and a dataset may be larger than memory.
#pragma once

#include "graph/tensor_type.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace weft {

struct Field {
  std::string name;
  // Of one sample, row-major: without the batch dim.
  TensorType type;

  bool operator==(const Field&) const = default;
};

class Dataset {
 public:
  virtual ~Dataset() = default;

  // In samples.
  virtual int64_t size() const = 0;
  virtual const std::vector<Field>& fields() const = 0;
  // True for a stream of tokens, cut into sequences: the fields are `tokens`
  // and `labels`, the token after each.
  virtual bool is_stream() const = 0;
  // How many different tokens a stream can hold, where that is known.
  virtual std::optional<int64_t> vocabulary() const = 0;
  // What a person should know: how many files were left out and why.
  virtual const std::vector<std::string>& notes() const = 0;

  // Fills `to` with one field (an index into fields()) of one sample. May be
  // called from several threads. Throws UserError when the data is wrong.
  virtual void read(
      int64_t sample, size_t field, std::span<std::byte> to) const = 0;
};

enum class DatasetKind : uint8_t { Auto, Text, Tokens, Arrays };

struct DatasetOptions {
  DatasetKind kind = DatasetKind::Auto;
  // Streams: tokens in a sample. Sample i is tokens [i*L, i*L + L], the last of
  // which is a label only. A remainder at the end is left out.
  int64_t sequence = 0;
  // Streams: a token that is not below it is refused when it is read.
  std::optional<int64_t> vocabulary = std::nullopt;
  // Text: a tokenizer.json; empty takes the bytes as tokens.
  std::string tokenizer = {};
  // Text in folders: only files that end so (".txt"); empty takes all.
  std::vector<std::string> extensions = {};
  // Tokens: 2 or 4 bytes each, little-endian.
  int64_t token_bytes = 2;
};

// Opens files and folders as one dataset. By what is there:
//   .npy, .safetensors    arrays: every array is a field named by its stem or
//                         tensor name; dim 0 are the samples
//   .bin                  flat streams of tokens, one after the other
//   anything else         text; see text_files.h and token_cache.h
// A folder is what its files are: arrays before tokens before text. Throws
// UserError naming the path, what is wrong and what to do.
std::unique_ptr<Dataset> open_dataset(
    const std::vector<std::string>& paths, const DatasetOptions& options);
std::unique_ptr<Dataset> open_dataset(
    const std::string& path, const DatasetOptions& options);

}  // namespace weft
