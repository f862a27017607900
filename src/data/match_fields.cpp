// SPDX-License-Identifier: Apache-2.0
#include "data/match_fields.h"

#include "base/error.h"
#include "data/convert.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace weft {
namespace {

constexpr std::string_view kOnes = "ones";

std::string list_both(
    const std::vector<BatchInput>& inputs, const Dataset& dataset) {
  std::vector<std::string> left;
  for (const BatchInput& input : inputs) {
    left.push_back(cat(input.key, " ", print(input.type)));
  }
  std::vector<std::string> right;
  for (const Field& field : dataset.fields()) {
    right.push_back(cat(field.name, " ", print(field.type)));
  }
  return cat(
      "The model's inputs: ",
      join(left, ", "),
      "; the fields of one sample: ",
      join(right, ", "),
      ". Say which goes where by KEY=FIELD");
}

class Matcher {
 public:
  Matcher(
      const std::vector<BatchInput>& inputs,
      const Dataset& dataset,
      const std::vector<std::string>& pairs)
      : inputs_(inputs), dataset_(dataset) {
    for (const std::string& pair : pairs) {
      const size_t equals = pair.find('=');
      WEFT_CHECK_USER(
          equals != std::string::npos && equals > 0 && equals + 1 < pair.size(),
          quote(pair),
          " is no pair KEY=FIELD of an input and a field");
      const std::string key = pair.substr(0, equals);
      if (!has_input(key)) {
        fail(cat("the model has no batch input ", quote(key)));
      }
      const std::string field = pair.substr(equals + 1);
      if (field != kOnes && !find_field(field)) {
        fail(cat("the data has no field ", quote(field)));
      }
      if (!pairs_.emplace(key, field).second) {
        fail(cat("the input ", quote(key), " is given twice"));
      }
    }
    is_hugging_face_ = dataset.is_stream() && has_input("input_ids");
  }

  std::vector<FieldMatch> match() {
    std::vector<FieldMatch> matches;
    for (const BatchInput& input : inputs_) {
      const auto field = field_for(input);
      if (!field) {
        fail(cat("no field for the input ", quote(input.key)));
      }
      matches.push_back(make_match(input, *field));
    }
    return matches;
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    throw UserError(cat(message, ". ", list_both(inputs_, dataset_)));
  }

  bool has_input(const std::string& key) const {
    return std::any_of(
        inputs_.begin(), inputs_.end(), [&](const BatchInput& input) {
          return input.key == key;
        });
  }

  std::optional<size_t> find_field(const std::string& name) const {
    const std::vector<Field>& fields = dataset_.fields();
    for (size_t i = 0; i < fields.size(); ++i) {
      if (fields[i].name == name) {
        return i;
      }
    }
    return std::nullopt;
  }

  // The name of a field, or `ones`.
  std::optional<std::string> field_for(const BatchInput& input) const {
    if (const auto pair = pairs_.find(input.key); pair != pairs_.end()) {
      return pair->second;
    }
    if (is_hugging_face_) {
      if (input.key == "input_ids" || input.key == "labels") {
        return "tokens";
      }
    }
    if (find_field(input.key)) {
      return input.key;
    }
    if (input.key == "attention_mask") {
      return std::string(kOnes);
    }
    return dataset_.is_stream() ? by_order(input) : std::nullopt;
  }

  bool is_sequence(const BatchInput& input) const {
    return !is_floating(input.type.dtype) && !is_complex(input.type.dtype) &&
           input.type.dtype != DType::Bool && input.type.sizes.size() == 2 &&
           input.type.sizes[1] == dataset_.fields()[0].type.sizes[0];
  }

  // By the place among the integer inputs of sizes [B, L].
  std::optional<std::string> by_order(const BatchInput& wanted) const {
    size_t place = 0;
    for (const BatchInput& input : inputs_) {
      if (!is_sequence(input)) {
        continue;
      }
      if (&input == &wanted) {
        return place < 2 ? std::optional(dataset_.fields()[place].name)
                         : std::nullopt;
      }
      ++place;
    }
    return std::nullopt;
  }

  FieldMatch make_match(
      const BatchInput& input, const std::string& name) const {
    if (input.type.sizes.empty()) {
      fail(cat("the input ", quote(input.key), " has no dim for samples"));
    }
    FieldMatch match;
    match.key = input.key;
    match.type = make_type(
        input.type.dtype,
        {input.type.sizes.begin() + 1, input.type.sizes.end()});
    if (name == kOnes && !find_field(name)) {
      match.source = FieldMatch::Source::Ones;
      if (!converts(DType::U8, match.type.dtype) &&
          match.type.dtype != DType::Bool) {
        fail(
            cat("the input ", quote(input.key), " cannot be filled with ones"));
      }
      return match;
    }
    match.field = find_field(name).value_or(0);
    const TensorType& type = dataset_.fields()[match.field].type;
    if (type.sizes != match.type.sizes) {
      fail(
          cat("the input ",
              quote(input.key),
              " takes ",
              print(match.type),
              " a sample, and the field ",
              quote(name),
              " is ",
              print(type)));
    }
    if (!converts(type.dtype, match.type.dtype)) {
      fail(
          cat("the field ",
              quote(name),
              " of ",
              print(type),
              " does not become the ",
              print(match.type),
              " that the input ",
              quote(input.key),
              " takes"));
    }
    return match;
  }

  const std::vector<BatchInput>& inputs_;
  const Dataset& dataset_;
  std::map<std::string, std::string> pairs_;
  bool is_hugging_face_ = false;
};

}  // namespace

std::vector<FieldMatch> match_fields(
    const std::vector<BatchInput>& inputs,
    const Dataset& dataset,
    const std::vector<std::string>& pairs) {
  return Matcher(inputs, dataset, pairs).match();
}

}  // namespace weft
