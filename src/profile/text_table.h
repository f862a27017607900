// SPDX-License-Identifier: Apache-2.0
// Tables and bars for a terminal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// How the reader's terminal shows text.
struct TextStyle {
  bool colour = false;
  // Bars of letters and '#' in place of block characters.
  bool ascii = false;
  // In characters.
  int width = 100;
};

std::string bold(std::string_view text, const TextStyle& style);
std::string dim(std::string_view text, const TextStyle& style);

// How many columns a text takes: code points, without colour codes.
int display_width(std::string_view text);
// At most `width` columns: the middle of a longer text gives way to "..".
std::string shortened(std::string_view text, int width);

// Figures as people read them: "1.20 G", "475 MiB", "3.1".
std::string count_text(int64_t count);
std::string bytes_text(int64_t bytes);
std::string decimals(double value, int count);
// "7.5 %"; "<0.1 %" for what is not nothing.
std::string percent(double share);

// A bar of up to `width` columns, padded with spaces to `width`.
std::string bar(double share, int width, const TextStyle& style);

// One bar made of parts, each in a colour or with a pattern of its own. The
// part's mark, for the legend, is part_mark(its index).
std::string stacked_bar(
    const std::vector<double>& parts, int width, const TextStyle& style);
std::string part_mark(size_t part, const TextStyle& style);

enum class Align : uint8_t { Left, Right };

// Rows of cells under headings, in columns just wide enough.
class TextTable {
 public:
  TextTable& column(std::string heading, Align align = Align::Right);
  void row(std::vector<std::string> cells);

  // Every line begins with `indent` spaces and ends with a newline, without
  // spaces before it. Headings are left out when all are empty.
  std::string print(const TextStyle& style, int indent = 0) const;

 private:
  std::vector<std::string> headings_;
  std::vector<Align> aligns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace weft
