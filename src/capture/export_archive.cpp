// SPDX-License-Identifier: Apache-2.0
#include "capture/export_archive.h"

#include "aten/types.h"
#include "base/error.h"
#include "base/json.h"

#include <ATen/ops/from_blob.h>
#include <torch/csrc/utils/generated_serialization_types.h>

#include <caffe2/serialize/inline_container.h>
#include <cstring>
#include <fstream>

namespace weft {
namespace {

namespace schema = torch::_export;

// The only major version that torch 2.13 writes and reads. Minor versions add
// fields.
constexpr int64_t kSchemaMajor = 8;

constexpr const char* kAdvice =
    ". Write it with torch.export.save(torch.export.export(model, batch), "
    "path) of PyTorch 2.13";

bool ends_as_zip(std::ifstream& file) {
  // The directory of a zip archive stands at its end, before a comment of at
  // most 64 KiB.
  constexpr std::streamoff kLongestEnd = (1 << 16) + 22;
  file.seekg(0, std::ios::end);
  const std::streamoff size = file.tellg();
  const std::streamoff taken = std::min(size, kLongestEnd);
  std::string end(static_cast<size_t>(taken), '\0');
  file.seekg(size - taken);
  file.read(end.data(), taken);
  return end.find("PK\x05\x06") != std::string::npos;
}

void check_is_zip(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  WEFT_CHECK_USER(file.good(), "[capture] cannot open the file: ", path);
  char magic[4] = {};
  file.read(magic, sizeof(magic));
  WEFT_CHECK_USER(
      std::memcmp(magic, "PK\x03\x04", sizeof(magic)) == 0,
      "[capture] ",
      path,
      " is not a .pt2 file (it is no zip archive)",
      kAdvice);
  file.clear();
  WEFT_CHECK_USER(
      ends_as_zip(file),
      "[capture] ",
      path,
      " is damaged: it ends before its table of contents. Was it copied "
      "completely?");
}

// "models/NAME.json" of the archive's one model; "" when there is none.
std::string find_model(
    caffe2::serialize::PyTorchStreamReader& reader, const std::string& path) {
  std::vector<std::string> models;
  for (const std::string& record : reader.getAllRecords()) {
    if (record.starts_with("models/") && record.ends_with(".json")) {
      models.push_back(record);
    }
  }
  WEFT_CHECK_USER(
      models.size() <= 1,
      "not supported: a .pt2 file with ",
      models.size(),
      " models; save them one by one: ",
      path);
  return models.empty() ? "" : models.front();
}

void check_schema_version(
    const nlohmann::json& program, const std::string& path) {
  const auto version = program.find("schema_version");
  WEFT_CHECK_USER(
      version != program.end() && version->contains("major"),
      "[capture] ",
      path,
      " holds a program without a schema version",
      kAdvice);
  const auto major = version->at("major").get<int64_t>();
  WEFT_CHECK_USER(
      major == kSchemaMajor,
      "[capture] ",
      path,
      " was written by a PyTorch whose export schema has version ",
      major,
      "; version ",
      kSchemaMajor,
      " can be read",
      kAdvice);
}

[[noreturn]] void refuse_program(
    const std::string& path, const std::string& why) {
  throw UserError(
      cat("[capture] ",
          path,
          ": the program in it cannot be read (",
          why,
          ")",
          kAdvice));
}

}  // namespace

ExportArchive::ExportArchive(const std::string& path) : path_(path) {
  check_is_zip(path);
  std::string model;
  try {
    reader_ = std::make_unique<caffe2::serialize::PyTorchStreamReader>(path);
    model = find_model(*reader_, path);
  } catch (const c10::Error&) {
    // A zip archive of something else.
  }
  WEFT_CHECK_USER(
      !model.empty(),
      "[capture] ",
      path,
      " is a zip archive, but not one of torch.export",
      kAdvice);
  const std::string name =
      model.substr(7, model.size() - 7 - std::strlen(".json"));
  try {
    const nlohmann::json program = json_of(model);
    check_schema_version(program, path);
    program_ = std::make_unique<schema::ExportedProgram>(
        program.get<schema::ExportedProgram>());
    weights_ = std::make_unique<schema::PayloadConfig>(
        payload_config(cat("data/weights/", name, "_weights_config.json")));
    constants_ = std::make_unique<schema::PayloadConfig>(
        payload_config(cat("data/constants/", name, "_constants_config.json")));
  } catch (const nlohmann::json::exception& error) {
    refuse_program(path, json_fault(error));
  } catch (const UserError&) {
    throw;
  } catch (const std::exception& error) {
    // What torch's own reader of the schema does not take.
    refuse_program(path, error.what());
  }
}

ExportArchive::~ExportArchive() = default;

std::string ExportArchive::record(const std::string& name) const {
  try {
    const auto [data, size] = reader_->getRecord(name);
    return {static_cast<const char*>(data.get()), size};
  } catch (const c10::Error& error) {
    throw UserError(
        cat("[capture] ",
            path_,
            " is damaged: its record ",
            name,
            " cannot be read (",
            error.what_without_backtrace(),
            ")"));
  }
}

nlohmann::json ExportArchive::json_of(const std::string& name) const {
  const std::string text = record(name);
  try {
    return parse_json<nlohmann::json>(text);
  } catch (const UserError& error) {
    throw UserError(
        cat("[capture] ",
            path_,
            " is damaged: its record ",
            name,
            ", ",
            error.what(),
            kAdvice));
  }
}

schema::PayloadConfig ExportArchive::payload_config(
    const std::string& name) const {
  if (!reader_->hasRecord(name)) {
    return {};
  }
  return json_of(name).get<schema::PayloadConfig>();
}

std::string ExportArchive::weight_identity(const std::string& name) const {
  const auto found = weights_->get_config().find(name);
  if (found == weights_->get_config().end() ||
      !found->second.get_tensor_meta()) {
    return "";
  }
  const schema::TensorMeta& meta = *found->second.get_tensor_meta();
  return cat(
      found->second.get_path_name(),
      "+",
      size_of(meta.get_storage_offset()),
      " ",
      print(type_of(meta)));
}

at::Tensor ExportArchive::constant(const std::string& name) const {
  const auto found = constants_->get_config().find(name);
  WEFT_CHECK_USER(
      found != constants_->get_config().end() &&
          found->second.get_tensor_meta() && !found->second.get_use_pickle(),
      "[capture] ",
      path_,
      " does not hold the values of the constant ",
      name,
      " as a plain tensor");
  const schema::TensorMeta& meta = *found->second.get_tensor_meta();
  const TensorType type = type_of(meta);
  const std::string bytes =
      record("data/constants/" + found->second.get_path_name());
  const auto offset = static_cast<size_t>(
      size_of(meta.get_storage_offset()) *
      static_cast<int64_t>(c10::elementSize(scalar_type_of(type.dtype))));
  const auto needed = static_cast<size_t>(storage_bytes(type));
  WEFT_CHECK_USER(
      offset <= bytes.size() && needed <= bytes.size() - offset,
      "[capture] ",
      path_,
      " is damaged: the constant ",
      name,
      " has ",
      bytes.size(),
      " bytes of ",
      offset + needed);
  // Its own copy: `bytes` goes away.
  return at::from_blob(
             const_cast<char*>(bytes.data()) + offset,
             type.sizes,
             strides_of(type),
             at::dtype(scalar_type_of(type.dtype)))
      .clone();
}

}  // namespace weft
