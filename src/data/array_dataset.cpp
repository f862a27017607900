// SPDX-License-Identifier: Apache-2.0
#include "data/array_dataset.h"

#include "base/error.h"
#include "checkpoint/tensor_file.h"
#include "data/npy_file.h"

#include <cstring>
#include <deque>
#include <filesystem>

namespace weft {
namespace {

class ArrayDataset final : public Dataset {
 public:
  explicit ArrayDataset(const std::vector<std::string>& files) {
    for (const std::string& path : files) {
      const std::filesystem::path name = path;
      if (name.extension() == ".npy") {
        const NpyFile& file = npy_files_.emplace_back(path);
        add(path, name.stem().string(), file.type(), file.bytes());
        continue;
      }
      const TensorFileReader& file = tensor_files_.emplace_back(path);
      for (const std::string& tensor : file.names()) {
        add(path, tensor, file.type(tensor), file.bytes(tensor));
      }
    }
    WEFT_CHECK_USER(!arrays_.empty(), "no arrays in ", join(files, ", "));
    size_ = arrays_.front().samples;
    for (const Array& array : arrays_) {
      WEFT_CHECK_USER(
          array.samples == size_,
          "arrays disagree on the number of samples (dim 0): ",
          arrays_.front().where,
          " has ",
          size_,
          ", ",
          array.where,
          " has ",
          array.samples);
    }
    WEFT_CHECK_USER(
        size_ > 0, "no whole sample: ", arrays_.front().where, " is empty");
  }

  int64_t size() const override { return size_; }
  const std::vector<Field>& fields() const override { return fields_; }
  bool is_stream() const override { return false; }
  std::optional<int64_t> vocabulary() const override { return std::nullopt; }
  const std::vector<std::string>& notes() const override { return notes_; }

  void read(
      int64_t sample, size_t field, std::span<std::byte> to) const override {
    WEFT_CHECK(
        0 <= sample && sample < size_ && field < arrays_.size() &&
            std::ssize(to) == storage_bytes(fields_[field].type),
        "sample ",
        sample,
        " of ",
        size_);
    if (!to.empty()) {
      std::memcpy(
          to.data(),
          arrays_[field].bytes.data() + static_cast<size_t>(sample) * to.size(),
          to.size());
    }
  }

 private:
  struct Array {
    std::string where;
    int64_t samples = 0;
    std::span<const std::byte> bytes;
  };

  void add(
      const std::string& path,
      const std::string& name,
      const TensorType& type,
      std::span<const std::byte> bytes) {
    WEFT_CHECK_USER(
        !type.sizes.empty(),
        path,
        ": array ",
        quote(name),
        " is a single number; dim 0 has to be the samples");
    for (const Field& field : fields_) {
      WEFT_CHECK_USER(
          field.name != name,
          path,
          ": there is an array ",
          quote(name),
          " already. Rename one of them");
    }
    fields_.push_back(
        {name,
         make_type(type.dtype, {type.sizes.begin() + 1, type.sizes.end()})});
    arrays_.push_back(
        {cat(path, " ", quote(name), " ", print(type)), type.sizes[0], bytes});
  }

  // Deques, so that what the arrays point into stays in its place.
  std::deque<NpyFile> npy_files_;
  std::deque<TensorFileReader> tensor_files_;
  std::vector<Array> arrays_;
  std::vector<Field> fields_;
  std::vector<std::string> notes_;
  int64_t size_ = 0;
};

}  // namespace

std::unique_ptr<Dataset> open_arrays(const std::vector<std::string>& files) {
  return std::make_unique<ArrayDataset>(files);
}

}  // namespace weft
