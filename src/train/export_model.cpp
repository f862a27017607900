// SPDX-License-Identifier: Apache-2.0
#include "train/export_model.h"

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/export_tensors.h"
#include "checkpoint/inner_path.h"
#include "checkpoint/output_file.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace weft {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Under a name of our choice, which may lie in a folder where others write too.
void write_chosen(const std::string& path, std::string_view content) {
  refuse_link(path);
  write_file(path, content);
}

// In the folder of a run.
constexpr const char* kDescription = "hugging_face.json";
constexpr const char* kTokenizer = "tokenizer";

// What lies beside a tokenizer.json and belongs to it.
constexpr std::array<const char*, 6> kTokenizerFiles = {
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "vocab.json",
    "merges.txt"};

// Of a checkpoint that does not say: what it holds but the optimizer's.
std::vector<ExportName> names_by_kind(const Checkpoint& checkpoint) {
  std::vector<ExportName> names;
  for (const std::string& name : checkpoint.names()) {
    for (const std::string_view kind : {"parameter/", "buffer/"}) {
      if (name.starts_with(kind)) {
        names.push_back({name, name.substr(kind.size())});
      }
    }
  }
  return names;
}

std::vector<ExportName> names_of(
    const Checkpoint& checkpoint, std::vector<std::string>& notes) {
  const Json state = parse_json<Json>(checkpoint.state());
  if (!state.contains("model")) {
    notes.push_back(
        cat(checkpoint.path(),
            " is of an earlier version, which does not tell further names of "
            "tied tensors nor which buffers are not persistent: it is written "
            "under its first names, with all buffers"));
    return names_by_kind(checkpoint);
  }
  std::vector<ExportName> names;
  for (const auto& [exported, name] : state["model"].items()) {
    WEFT_CHECK_USER(
        name.is_string(),
        checkpoint.path(),
        ": its state has no name for ",
        quote(exported),
        ". Use another checkpoint");
    names.push_back({name, exported});
  }
  return names;
}

int64_t bytes_of_tensor(const Checkpoint& checkpoint, const ExportName& name) {
  const TensorType& type = checkpoint.type(name.name);
  return element_count(type) * element_bytes(type.dtype);
}

// Consecutive tensors that take up to `shard_bytes` together.
std::vector<std::vector<ExportName>> shards_of(
    const Checkpoint& checkpoint,
    const std::vector<ExportName>& names,
    int64_t shard_bytes) {
  std::vector<std::vector<ExportName>> shards(1);
  int64_t bytes = 0;
  for (const ExportName& name : names) {
    const int64_t more = bytes_of_tensor(checkpoint, name);
    if (!shards.back().empty() && bytes + more > shard_bytes) {
      shards.emplace_back();
      bytes = 0;
    }
    shards.back().push_back(name);
    bytes += more;
  }
  return shards;
}

std::string five_digits(size_t number) {
  const std::string digits = cat(number);
  return std::string(5 - std::min<size_t>(5, digits.size()), '0') + digits;
}

void write_weights(
    Checkpoint& checkpoint,
    const std::vector<ExportName>& names,
    const fs::path& folder,
    int64_t shard_bytes) {
  const auto shards = shards_of(checkpoint, names, shard_bytes);
  if (shards.size() == 1) {
    export_tensors(checkpoint, names, (folder / "model.safetensors").string());
    return;
  }
  Json map = Json::object();
  int64_t total_bytes = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string file =
        cat("model-",
            five_digits(i + 1),
            "-of-",
            five_digits(shards.size()),
            ".safetensors");
    export_tensors(checkpoint, shards[i], (folder / file).string());
    for (const ExportName& name : shards[i]) {
      map[name.exported] = file;
      total_bytes += bytes_of_tensor(checkpoint, name);
    }
  }
  const Json index = {
      {"metadata", {{"total_size", total_bytes}}},
      {"weight_map", std::move(map)}};
  write_chosen(
      (folder / "model.safetensors.index.json").string(), index.dump(2) + "\n");
}

// What the run wrote down of a model of Hugging Face.
struct Description {
  // The part of the model that Hugging Face knows; "": all of it.
  std::string module;
  // By name: what each file of its folder holds.
  std::map<std::string, std::string> files;
};

Description read_description(const std::string& path) {
  const auto refuse = [&](const std::string& why) {
    throw UserError(
        cat(path,
            " is broken: ",
            why,
            ". Write the tensors alone with -o FILE.safetensors"));
  };
  Description description;
  try {
    const Json json = parse_json<Json>(read_file(path));
    description.module = json.at("module");
    description.files = json.at("files");
  } catch (const Json::exception& error) {
    refuse(json_fault(error));
  } catch (const UserError& error) {
    refuse(error.what());
  }
  for (const auto& [name, text] : description.files) {
    if (!is_inner_path(name)) {
      refuse(cat("a file ", quote(name), " would lie outside of the folder"));
    }
  }
  return description;
}

// The names inside of the module that Hugging Face knows.
std::vector<ExportName> names_inside(
    std::vector<ExportName> names,
    const std::string& module,
    std::vector<std::string>& notes) {
  if (module.empty()) {
    return names;
  }
  const std::string prefix = module + ".";
  std::vector<std::string> outside;
  std::vector<ExportName> inside;
  for (ExportName& name : names) {
    if (name.exported.starts_with(prefix)) {
      name.exported = name.exported.substr(prefix.size());
      inside.push_back(std::move(name));
    } else {
      outside.push_back(name.exported);
    }
  }
  if (!outside.empty()) {
    notes.push_back(
        cat("left out ",
            join(outside, ", "),
            ": not of ",
            module,
            ", the part of the model that Hugging Face knows"));
  }
  return inside;
}

void copy_tokenizer(const fs::path& run, const fs::path& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(run / kTokenizer, ignored)) {
    const fs::path to = folder / entry.path().filename();
    refuse_link(to.string());
    fs::copy_file(entry.path(), to, fs::copy_options::overwrite_existing);
  }
}

void make_empty_of_models(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  WEFT_CHECK_USER(
      !error && fs::is_directory(folder),
      "cannot make the folder ",
      folder.string(),
      ": ",
      error.message());
  for (const auto& entry : fs::directory_iterator(folder)) {
    WEFT_CHECK_USER(
        entry.path().extension() != ".safetensors",
        folder.string(),
        " holds a model already, ",
        entry.path().filename().string(),
        "; choose another folder");
  }
}

}  // namespace

std::string model_names(const Trainer& trainer) {
  Json names = Json::object();
  for (const Trainer::Kept& each : trainer.kept()) {
    if (each.input.kind != InputKind::State) {
      for (const std::string& name : saved_names(each.input)) {
        names[name] = resident_name(each.input);
      }
    }
  }
  return names.dump();
}

std::vector<std::string> export_model(
    Checkpoint& checkpoint, const std::string& path) {
  std::vector<std::string> notes;
  export_tensors(checkpoint, names_of(checkpoint, notes), path);
  return notes;
}

void keep_description(const std::string& run, const std::string& description) {
  if (!description.empty()) {
    write_chosen((fs::path(run) / kDescription).string(), description + "\n");
  }
}

void keep_tokenizer(const std::string& run, const std::string& tokenizer_path) {
  const fs::path to = fs::path(run) / kTokenizer;
  refuse_link(to.string());
  fs::create_directories(to);
  write_chosen((to / "tokenizer.json").string(), read_file(tokenizer_path));
  for (const char* name : kTokenizerFiles) {
    const fs::path beside = fs::path(tokenizer_path).parent_path() / name;
    if (fs::is_regular_file(beside)) {
      write_chosen((to / name).string(), read_file(beside.string()));
    }
  }
}

std::vector<std::string> export_folder(
    Checkpoint& checkpoint,
    const std::string& run,
    const std::string& folder,
    int64_t shard_bytes) {
  const fs::path description = fs::path(run) / kDescription;
  WEFT_CHECK_USER(
      fs::exists(description),
      checkpoint.path(),
      " is not of a model of Hugging Face: there is no ",
      description.string(),
      ", which weft train writes for one. Write the tensors alone with -o "
      "FILE.safetensors, and config.json by model.config.save_pretrained(...) "
      "in Python");
  const Description described = read_description(description.string());
  std::vector<std::string> notes;
  const std::vector<ExportName> names =
      names_inside(names_of(checkpoint, notes), described.module, notes);
  make_empty_of_models(folder);
  write_weights(checkpoint, names, folder, shard_bytes);
  for (const auto& [name, text] : described.files) {
    write_chosen((fs::path(folder) / name).string(), text);
  }
  copy_tokenizer(run, folder);
  return notes;
}

}  // namespace weft
