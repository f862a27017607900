// SPDX-License-Identifier: Apache-2.0
// Writing and reading text: what every noun's print and parse is built from.
#pragma once

#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace weft {

// Appends the printed form, as a stream has it: streams are made only for what
// is neither text nor a whole number.
template <typename T>
void append(std::string& to, const T& what) {
  if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    to += std::string_view(what);
  } else if constexpr (
      std::is_same_v<T, char> || std::is_same_v<T, signed char> ||
      std::is_same_v<T, unsigned char>) {
    to += static_cast<char>(what);
  } else if constexpr (std::is_same_v<T, bool>) {
    to += what ? '1' : '0';
  } else if constexpr (std::is_integral_v<T>) {
    to += std::to_string(what);
  } else {
    std::ostringstream out;
    out << what;
    to += out.str();
  }
}

// Joins the printed forms of its arguments.
template <typename... Args>
std::string cat(const Args&... args) {
  std::string out;
  (append(out, args), ...);
  return out;
}

std::string join(
    const std::vector<std::string>& parts, std::string_view separator);

std::vector<std::string> split(std::string_view text, char separator);

// True for [A-Za-z_][A-Za-z0-9_]*.
bool is_word(std::string_view text);

// The shortest text that reads back as the same double; always has '.', 'e',
// "inf" or "nan", so that it can be told from an integer.
std::string print_double(double value);

// Double-quoted, with \" \\ \n \t and \xNN escapes.
std::string quote(std::string_view text);

// "1,234,567"
std::string with_commas(int64_t value);

// "1.50 GiB", "512 B": for people; data files carry plain numbers.
std::string human_bytes(double bytes);

// "3.14 T", "12.0 G": a count with an SI prefix, for people.
std::string human_count(double count);

// Hexadecimal of raw bytes, and back. from_hex throws UserError on bad digits.
std::string to_hex(std::string_view bytes);
std::string from_hex(std::string_view text);

// Reads the whole file, or throws UserError naming it and the reason.
std::string read_file(const std::string& path);

// Writes beside the file and renames, so that a reader never sees half of it.
// Throws UserError naming the path and the reason.
void write_file(const std::string& path, std::string_view content);

// A cursor over a text with line and column, for hand-written recursive-descent
// parsers. All take_* and expect_* skip spaces, newlines and `// comments`
// first, except where a name says otherwise. Errors are UserError:
// "FILE:LINE:COLUMN: expected X, found Y".
class Scanner {
 public:
  // `source` names the text in messages (a path, or "<text>").
  Scanner(std::string_view text, std::string source);

  bool at_end();
  // The next character after spaces, or '\0' at the end.
  char peek();
  // True when the next characters are `token` (nothing is consumed). A token
  // that ends like a word must be the whole word: "in" is not next in "input".
  bool looking_at(std::string_view token);
  // Consumes `token` if it is next.
  bool take(std::string_view token);
  void expect(std::string_view token);

  // [A-Za-z_][A-Za-z0-9_]*
  std::string expect_word();
  // A run of characters for which `accepts` holds; at least one. As long as the
  // text is there.
  std::string_view expect_run(bool (*accepts)(char), std::string_view what);
  int64_t expect_int();
  // A number; sets `is_integer` when it has neither '.', 'e' nor a word form.
  double expect_number(bool* is_integer, int64_t* integer);
  std::string expect_string();
  // The rest of the line, without its end and without a trailing comment.
  std::string take_line();

  // The position of the next token, as "FILE:LINE:COLUMN".
  std::string where();
  [[noreturn]] void fail(const std::string& message);
  // Remembers the next token, for a message about it after it was consumed.
  size_t mark();
  [[noreturn]] void fail_at(size_t mark, const std::string& message);
  // "expected WHAT, found Y", where Y is the next token.
  [[noreturn]] void fail_expected(std::string_view what);

 private:
  void skip_space();
  std::string where_is(size_t position) const;

  std::string_view text_;
  std::string source_;
  size_t position_ = 0;
};

}  // namespace weft
