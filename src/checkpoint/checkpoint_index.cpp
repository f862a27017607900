// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/checkpoint_index.h"

#include "base/error.h"
#include "base/json.h"
#include "base/number.h"
#include "graph/countable.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "weft-checkpoint";

std::string print_checksum(uint64_t checksum) {
  std::string digits(16, '0');
  for (size_t i = 0; i < digits.size(); ++i) {
    digits[i] = "0123456789abcdef"[(checksum >> (60 - 4 * i)) & 15];
  }
  return digits;
}

uint64_t parse_checksum(const std::string& text) {
  const std::optional<uint64_t> value = read_hexadecimal(text);
  WEFT_CHECK_USER(
      text.size() == 16 && value, "a checksum is ", quote(text.substr(0, 40)));
  return *value;
}

uint64_t checksum_of_text(const std::string& text) {
  return checksum_of(std::as_bytes(std::span(text)));
}

Json to_json(const StoredTensor& tensor) {
  Json pieces = Json::array();
  for (const StoredPiece& piece : tensor.pieces) {
    pieces.push_back(
        {{"file", piece.file},
         {"start", piece.box.start},
         {"size", piece.box.size},
         {"offset", piece.offset_bytes},
         {"bytes", piece.size_bytes},
         {"xxh3", print_checksum(piece.checksum)}});
  }
  return {
      {"dtype", name(tensor.type.dtype)},
      {"sizes", tensor.type.sizes},
      {"pieces", std::move(pieces)}};
}

StoredPiece piece_from(
    const Json& json,
    const TensorType& type,
    const std::map<std::string, int64_t>& files_bytes) {
  StoredPiece piece;
  piece.file = json.at("file");
  piece.box.start = whole_numbers(json.at("start"));
  piece.box.size = whole_numbers(json.at("size"));
  piece.offset_bytes = whole_number(json.at("offset"));
  piece.size_bytes = whole_number(json.at("bytes"));
  piece.checksum = parse_checksum(json.at("xxh3"));
  const auto file = files_bytes.find(piece.file);
  WEFT_CHECK_USER(
      file != files_bytes.end(),
      "a piece lies in ",
      quote(piece.file),
      ", which is not among the files");
  WEFT_CHECK_USER(
      fits(piece.box, type.sizes) &&
          piece.size_bytes ==
              element_count(piece.box) * element_bytes(type.dtype) &&
          0 <= piece.offset_bytes && piece.offset_bytes <= file->second &&
          piece.size_bytes <= file->second - piece.offset_bytes,
      "a piece does not fit its tensor or its file ",
      quote(piece.file));
  return piece;
}

StoredTensor tensor_from(
    const Json& json, const std::map<std::string, int64_t>& files_bytes) {
  StoredTensor tensor;
  const std::string dtype = json.at("dtype");
  const auto known = dtype_from_name(dtype);
  WEFT_CHECK_USER(known.has_value(), "unknown element type ", quote(dtype));
  tensor.type.dtype = *known;
  tensor.type.sizes = whole_numbers(json.at("sizes"));
  // Of a part of it, too, bytes can then be counted.
  WEFT_CHECK_USER(
      is_countable(tensor.type.dtype, tensor.type.sizes),
      "its sizes are not those of a tensor");
  for (const Json& piece : json.at("pieces")) {
    tensor.pieces.push_back(piece_from(piece, tensor.type, files_bytes));
  }
  return tensor;
}

struct NotJson : UserError {
  using UserError::UserError;
};

Json parse_text(const std::string& text) {
  try {
    return parse_json<Json>(text);
  } catch (const UserError& error) {
    throw NotJson(error.what());
  }
}

CheckpointIndex index_from(const Json& json) {
  CheckpointIndex index;
  index.fingerprint = json.at("model");
  index.step = whole_number(json.at("step"));
  index.state = json.at("state").dump();
  for (const auto& [name, size] : json.at("files").items()) {
    const int64_t bytes = whole_number(size);
    // A name with a folder in it could lead out of the checkpoint.
    WEFT_CHECK_USER(
        bytes >= 0 && !name.empty() && name.front() != '.' &&
            name.find('/') == std::string::npos,
        "bad file ",
        quote(name));
    index.files_bytes[name] = bytes;
  }
  for (const auto& [name, tensor] : json.at("tensors").items()) {
    try {
      index.tensors[name] = tensor_from(tensor, index.files_bytes);
    } catch (const UserError& error) {
      throw UserError(cat("tensor ", quote(name), ": ", error.what()));
    }
  }
  return index;
}

}  // namespace

std::string print(const CheckpointIndex& index) {
  Json tensors = Json::object();
  for (const auto& [name, tensor] : index.tensors) {
    tensors[name] = to_json(tensor);
  }
  Json json = {
      {"format", kFormat},
      {"version", kCheckpointVersion},
      {"model", index.fingerprint},
      {"step", index.step}};
  try {
    // As deep as it lies in the index, which has to be read again.
    json["state"] = parse_json<Json>(cat("[", index.state, "]")).front();
  } catch (const UserError& error) {
    throw UserError(
        cat("the state of a checkpoint cannot be written: ", error.what()));
  }
  json["files"] = index.files_bytes;
  json["tensors"] = std::move(tensors);
  json["xxh3"] = print_checksum(checksum_of_text(json.dump()));
  return json.dump(1) + "\n";
}

CheckpointIndex parse_checkpoint_index(
    const std::string& text, const std::string& source) {
  try {
    Json json = parse_text(text);
    WEFT_CHECK_USER(
        json.is_object() && json.value("format", "") == kFormat,
        "it is not the index of a checkpoint");
    const int64_t version = whole_number(json.at("version"));
    WEFT_CHECK_USER(
        version == kCheckpointVersion,
        "the checkpoint has version ",
        version,
        " and this weft reads version ",
        kCheckpointVersion,
        ". Load it with the weft that wrote it and export its tensors");
    const uint64_t written = parse_checksum(json.at("xxh3"));
    json.erase("xxh3");
    WEFT_CHECK_USER(
        written == checksum_of_text(json.dump()),
        "it was changed after it was written (its checksum differs). Use an "
        "earlier checkpoint");
    return index_from(json);
  } catch (const Json::exception& error) {
    throw UserError(
        cat(source,
            " is broken: ",
            json_fault(error),
            ". Use an earlier checkpoint"));
  } catch (const NotJson& error) {
    throw UserError(cat(
        source, " is broken: ", error.what(), ". Use an earlier checkpoint"));
  } catch (const UserError& error) {
    throw UserError(cat(source, ": ", error.what()));
  }
}

void add_part(CheckpointIndex& index, const CheckpointIndex& part) {
  for (const auto& [file, bytes] : part.files_bytes) {
    WEFT_CHECK(
        index.files_bytes.emplace(file, bytes).second,
        "two ranks wrote ",
        file);
  }
  for (const auto& [name, tensor] : part.tensors) {
    StoredTensor& known = index.tensors[name];
    if (known.pieces.empty()) {
      known.type = tensor.type;
    }
    WEFT_CHECK(
        known.type == tensor.type,
        name,
        " is ",
        print(known.type),
        " and ",
        print(tensor.type));
    for (const StoredPiece& piece : tensor.pieces) {
      bool there = false;
      for (const StoredPiece& other : known.pieces) {
        if (other.box == piece.box) {
          there = true;
          break;
        }
        WEFT_CHECK(
            !intersect(other.box, piece.box),
            name,
            ": pieces overlap: ",
            print(other.box),
            " and ",
            print(piece.box));
      }
      if (!there) {
        known.pieces.push_back(piece);
      }
    }
  }
}

void check_covered(const CheckpointIndex& index) {
  for (const auto& [name, tensor] : index.tensors) {
    int64_t count = 0;
    for (const StoredPiece& piece : tensor.pieces) {
      count += element_count(piece.box);
    }
    // The pieces do not overlap, so counting is enough.
    WEFT_CHECK(
        count == element_count(tensor.type),
        name,
        ": pieces hold ",
        count,
        " elements of ",
        print(tensor.type));
  }
}

uint64_t checksum_of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace weft
