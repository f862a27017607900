// SPDX-License-Identifier: Apache-2.0
// Reading JSON that others wrote. Every file of JSON comes in by parse_json,
// which bounds what the library does not.
#pragma once

#include <cstdint>
#include <exception>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// No file that is read here nests deeper. What walks, copies or prints a tree
// of JSON recurses, so this bounds the stack that a file can take.
inline constexpr size_t kDeepestJson = 100;

// `Json` is nlohmann::json or nlohmann::ordered_json. Throws UserError "line 3,
// column 7: WHAT" for what is not JSON (text behind the value and invalid UTF-8
// among it), for a number that no double holds, for values nested deeper than
// kDeepestJson, and for a key that an object has twice. Callers name the file.
template <typename Json>
Json parse_json(std::string_view text);

// What an exception of the library says, without the number that it gives it.
std::string json_fault(const std::exception& error);

// The library converts 1.5, true and 2^64 to an int64 without a word. These
// take whole numbers that an int64 holds, and throw UserError for others.
template <typename Json>
int64_t whole_number(const Json& value);
template <typename Json>
std::vector<int64_t> whole_numbers(const Json& value);

}  // namespace weft
