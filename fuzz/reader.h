// SPDX-License-Identifier: Apache-2.0
// What is fuzzed: every reader of files that others wrote, as a function of
// bytes. One table, for the fuzzers and for the replay of their corpora.
#pragma once

#include <string_view>
#include <vector>

namespace weft {

struct FuzzedReader {
  // Of the program fuzz_<name> and the folder corpus/<name>.
  std::string_view name;
  // Whether mutants are made of tokens and lines, and not of bytes alone.
  bool is_text = true;
  // Throws nothing where the reader keeps its promise, whatever the bytes: a
  // UserError is an answer. What is read prints and parses to the same.
  void (*read)(std::string_view bytes) = nullptr;
};

const std::vector<FuzzedReader>& fuzzed_readers();
// Throws InternalError when there is none.
const FuzzedReader& fuzzed_reader(std::string_view name);

// The texts of nouns.
void read_graph(std::string_view bytes);
void read_program(std::string_view bytes);
void read_plan(std::string_view bytes);
void read_cluster(std::string_view bytes);
void read_schedule(std::string_view bytes);
void read_timeline(std::string_view bytes);
void read_table(std::string_view bytes);
// Texts that are read and then taken through the stages behind: a graph and a
// plan, with a line "----" between, to a program and its simulation.
void read_step(std::string_view bytes);

// Everything else that is read from a disk.
void read_json(std::string_view bytes);
void read_safetensors(std::string_view bytes);
void read_weight_map(std::string_view bytes);
void read_index(std::string_view bytes);
void read_npy(std::string_view bytes);
void read_tokenizer(std::string_view bytes);
void read_token_cache(std::string_view bytes);
void read_metrics(std::string_view bytes);
void read_run(std::string_view bytes);

}  // namespace weft
