// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "base/readable.h"
#include "reader.h"

namespace weft {

const std::vector<FuzzedReader>& fuzzed_readers() {
  static const std::vector<FuzzedReader> readers = {
      {"graph", true, read_graph},
      {"program", true, read_program},
      {"plan", true, read_plan},
      {"cluster", true, read_cluster},
      {"schedule", true, read_schedule},
      {"timeline", true, read_timeline},
      {"table", true, read_table},
      {"step", true, read_step},
      {"json", true, read_json},
      {"safetensors", false, read_safetensors},
      {"weight_map", true, read_weight_map},
      {"index", true, read_index},
      {"npy", false, read_npy},
      {"tokenizer", true, read_tokenizer},
      {"token_cache", false, read_token_cache},
      {"metrics", true, read_metrics},
      {"run", true, read_run},
  };
  return readers;
}

const FuzzedReader& fuzzed_reader(std::string_view name) {
  for (const FuzzedReader& reader : fuzzed_readers()) {
    if (reader.name == name) {
      return reader;
    }
  }
  WEFT_CHECK(false, "no reader ", name);
}

}  // namespace weft
