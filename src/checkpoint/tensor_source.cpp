// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tensor_source.h"

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/inner_path.h"
#include "checkpoint/tensor_file.h"

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

namespace weft {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

// Safetensors files side by side; which one holds a tensor is known.
class TensorFiles final : public TensorSource {
 public:
  TensorFiles(std::string path, std::vector<TensorFileReader> files)
      : path_(std::move(path)), files_(std::move(files)) {}

  void add(const std::string& name, size_t file) {
    WEFT_CHECK_USER(
        files_[file].has(name),
        path_,
        ": the index puts tensor ",
        quote(name),
        " into ",
        files_[file].path(),
        ", which does not hold it");
    file_of_[name] = file;
  }

  const std::string& path() const override { return path_; }

  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, file] : file_of_) {
      names.push_back(name);
    }
    return names;
  }

  bool has(const std::string& name) const override {
    return file_of_.contains(name);
  }

  const TensorType& type(const std::string& name) const override {
    return find(name).type(name);
  }

  void read(const std::string& name, const Box& box, std::span<std::byte> to)
      override {
    const TensorFileReader& file = find(name);
    const TensorType& type = file.type(name);
    WEFT_CHECK(
        fits(box, type.sizes), print(box), " of ", name, " ", print(type));
    copy_box(
        box,
        whole_box(type.sizes),
        file.bytes(name),
        box,
        to,
        element_bytes(type.dtype));
  }

 private:
  const TensorFileReader& find(const std::string& name) const {
    const auto found = file_of_.find(name);
    WEFT_CHECK_USER(
        found != file_of_.end(), path_, " has no tensor ", quote(name));
    return files_[found->second];
  }

  std::string path_;
  std::vector<TensorFileReader> files_;
  std::map<std::string, size_t> file_of_;
};

std::unique_ptr<TensorSource> open_one_file(
    const std::string& path, const std::string& file) {
  std::vector<TensorFileReader> files;
  files.emplace_back(file);
  const std::vector<std::string> names = files.front().names();
  auto source = std::make_unique<TensorFiles>(path, std::move(files));
  for (const std::string& name : names) {
    source->add(name, 0);
  }
  return source;
}

// From the names of tensors to files of the folder that the index is in.
std::map<std::string, std::string> weight_map(const std::string& index) {
  std::map<std::string, std::string> file_of;
  const auto refuse = [&](const std::string& why) {
    throw UserError(
        cat(index, " has no weight_map from tensors to files: ", why));
  };
  try {
    file_of = parse_json<Json>(read_file(index)).at("weight_map");
  } catch (const Json::exception& error) {
    refuse(json_fault(error));
  } catch (const UserError& error) {
    refuse(error.what());
  }
  for (const auto& [name, file] : file_of) {
    WEFT_CHECK_USER(
        is_inner_path(file),
        index,
        " puts tensor ",
        quote(name),
        " into ",
        quote(file),
        ", which does not lie in the folder of the index: name files there");
  }
  return file_of;
}

std::unique_ptr<TensorSource> open_indexed(
    const std::string& path, const std::string& index) {
  const std::map<std::string, std::string> file_of = weight_map(index);
  std::map<std::string, size_t> numbers;
  std::vector<TensorFileReader> files;
  for (const auto& [name, file] : file_of) {
    if (numbers.emplace(file, files.size()).second) {
      files.emplace_back((fs::path(path) / file).string());
    }
  }
  auto source = std::make_unique<TensorFiles>(path, std::move(files));
  for (const auto& [name, file] : file_of) {
    source->add(name, numbers.at(file));
  }
  return source;
}

}  // namespace

std::vector<std::byte> read_whole(
    TensorSource& source, const std::string& name) {
  const TensorType& type = source.type(name);
  std::vector<std::byte> bytes(static_cast<size_t>(storage_bytes(type)));
  source.read(name, whole_box(type.sizes), bytes);
  return bytes;
}

std::unique_ptr<TensorSource> open_tensors(const std::string& path) {
  const fs::path folder = path;
  WEFT_CHECK_USER(
      fs::exists(folder),
      "cannot open ",
      path,
      ": there is no such file or folder");
  if (!fs::is_directory(folder)) {
    return open_one_file(path, path);
  }
  if (fs::exists(folder / kIndexFile)) {
    return std::make_unique<Checkpoint>(path);
  }
  const fs::path index = folder / "model.safetensors.index.json";
  if (fs::exists(index)) {
    return open_indexed(path, index.string());
  }
  const fs::path one = folder / "model.safetensors";
  WEFT_CHECK_USER(
      fs::exists(one),
      "no tensors in ",
      path,
      ": looked for index.json (a checkpoint), model.safetensors.index.json "
      "and model.safetensors. Name the .safetensors file itself if it is "
      "called "
      "otherwise");
  return open_one_file(path, one.string());
}

}  // namespace weft
