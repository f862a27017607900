// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "checkpoint/checkpoint_index.h"
#include "checkpoint/tensor_file.h"
#include "checkpoint/tensor_source.h"
#include "data/npy_file.h"
#include "data/token_cache_file.h"
#include "data/tokenizer.h"
#include "reader.h"
#include "train/metrics.h"
#include "train/run_settings.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sys/mman.h>
#include <unistd.h>

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

template <typename Call>
void expect_answer(Call&& call) {
  try {
    call();
  } catch (const UserError&) {
    // One.
  }
}

void write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(file, bytes.data(), bytes.size());
    WEFT_CHECK(count > 0, "cannot write an input");
    bytes.remove_prefix(static_cast<size_t>(count));
  }
}

// A file in memory, which nobody has to remove.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes)
      : file_(memfd_create("weft-fuzz", MFD_CLOEXEC)) {
    WEFT_CHECK(file_ >= 0, "no memory for an input");
    write_all(file_, bytes);
  }
  ~MemoryFile() { close(file_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return cat("/proc/self/fd/", file_); }

 private:
  int file_;
};

// For readers that look beside the file, or write it anew. Removed at the end.
class Folder {
 public:
  Folder() {
    std::string name =
        (std::filesystem::temp_directory_path() / "weft-fuzz-XXXXXX").string();
    WEFT_CHECK(mkdtemp(name.data()) != nullptr, "no folder for an input");
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string operator/(std::string_view name) const {
    return cat(path_, "/", name);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

uint64_t sum_of(std::span<const std::byte> bytes) {
  uint64_t sum = 0;
  for (const std::byte one : bytes) {
    sum += static_cast<uint64_t>(one);
  }
  return sum;
}

}  // namespace

void read_json(std::string_view bytes) {
  expect_answer([&] {
    const Json json = parse_json<Json>(bytes);
    WEFT_CHECK(
        parse_json<Json>(json.dump()) == json, "read otherwise: ", json.dump());
    WEFT_CHECK(parse_json<nlohmann::json>(bytes) == nlohmann::json(json));
  });
}

void read_safetensors(std::string_view bytes) {
  const MemoryFile file(bytes);
  expect_answer([&] {
    const TensorFileReader reader(file.path());
    size_t bytes_read = 0;
    for (const std::string& name : reader.names()) {
      sum_of(reader.bytes(name));
      print(reader.type(name));
      bytes_read += reader.bytes(name).size();
    }
    WEFT_CHECK(bytes_read <= bytes.size(), "tensors overlap");
  });
}

void read_weight_map(std::string_view bytes) {
  static const Folder folder;
  static const bool is_there = [] {
    TensorFileWriter file(
        folder / "one.safetensors", {{"a", parse_type("u8[2]")}});
    file.write(std::vector<std::byte>(2));
    file.finish();
    return true;
  }();
  WEFT_CHECK(is_there);
  write_file(folder / "model.safetensors.index.json", bytes);
  expect_answer([&] {
    const auto source = open_tensors(folder.path());
    for (const std::string& name : source->names()) {
      read_whole(*source, name);
    }
  });
}

// Most mutants would end at the checksum: they are given the right one.
void read_index(std::string_view bytes) {
  std::string text(bytes);
  expect_answer([&] {
    Json json = parse_json<Json>(text);
    if (json.is_object() && json.contains("xxh3")) {
      json.erase("xxh3");
      const std::string rest = json.dump();
      const uint64_t sum = checksum_of(std::as_bytes(std::span(rest)));
      std::string digits(8, '\0');
      for (size_t i = 0; i < digits.size(); ++i) {
        digits[i] = static_cast<char>(sum >> (56 - 8 * i));
      }
      json["xxh3"] = to_hex(digits);
      text = json.dump();
    }
  });
  expect_answer([&] {
    const CheckpointIndex index = parse_checkpoint_index(text, "<fuzz>");
    WEFT_CHECK(
        parse_checkpoint_index(print(index), "<again>") == index,
        "its own text is read otherwise");
  });
}

void read_npy(std::string_view bytes) {
  const MemoryFile file(bytes);
  expect_answer([&] {
    const NpyFile array(file.path());
    print(array.type());
    sum_of(array.bytes());
  });
}

void read_tokenizer(std::string_view bytes) {
  const MemoryFile file(bytes);
  expect_answer([&] {
    Tokenizer tokenizer(file.path());
    for (const uint32_t token : tokenizer.encode("a bc <|endoftext|> abc")) {
      WEFT_CHECK(token < tokenizer.vocabulary(), "token ", token);
    }
  });
}

// The marks at the end are made right again, as for an index.
void read_token_cache(std::string_view bytes) {
  constexpr size_t kMark = 56;
  constexpr uint64_t kMadeFrom = 7;
  std::string text(bytes);
  const auto put = [&](size_t at, uint64_t number) {
    std::memcpy(text.data() + at, &number, sizeof(number));
  };
  if (text.size() >= kMark) {
    const size_t mark = text.size() - kMark;
    uint64_t tokens = 0;
    std::memcpy(&tokens, text.data() + mark + 24, sizeof(tokens));
    put(mark + 16, kMadeFrom);
    if (tokens <= mark) {
      put(mark + 40,
          checksum_of(
              std::as_bytes(std::span(text)).subspan(tokens, mark - tokens)));
    }
    put(mark + 48,
        checksum_of(std::as_bytes(std::span(text)).subspan(mark, 48)));
  }
  const MemoryFile file(text);
  expect_answer([&] {
    const TokenCacheOpening opening = open_token_cache(file.path(), kMadeFrom);
    WEFT_CHECK(opening.cache || !opening.why.empty(), "no reason");
    if (opening.cache) {
      sum_of(opening.cache->tokens);
    }
  });
}

void read_metrics(std::string_view bytes) {
  static const Folder folder;
  const std::string path = folder / "metrics.jsonl";
  write_file(path, bytes);
  expect_answer([&] {
    JsonLines lines(path, 3);
    lines.write(4, {{"loss", 1}});
  });
}

void read_run(std::string_view bytes) {
  expect_answer([&] {
    const RunRecord record = parse_run_record(std::string(bytes), "<fuzz>");
    const std::string text = print(record);
    WEFT_CHECK(
        print(parse_run_record(text, "<again>")) == text,
        "its own text is read otherwise: ",
        text);
    for (const RunChange& change :
         changes_between(run_settings(), record.values, {})) {
      explain(run_settings(), change);
    }
  });
}

}  // namespace weft
