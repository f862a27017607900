// SPDX-License-Identifier: Apache-2.0
#include "profile/text_table.h"

#include "base/error.h"
#include "base/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace weft {
namespace {

constexpr std::string_view kReset = "\033[0m";

// Parts of a stacked bar: a colour, or a pattern, or a letter.
struct PartLook {
  std::string_view colour;
  std::string_view pattern;
  char letter;
};
constexpr std::array<PartLook, 8> kParts = {{
    {"\033[34m", "█", 'P'},
    {"\033[36m", "▓", 'G'},
    {"\033[35m", "▒", 'O'},
    {"\033[33m", "▤", 'B'},
    {"\033[37m", "▥", 'I'},
    {"\033[32m", "░", 'A'},
    {"\033[31m", "▚", 'T'},
    {"\033[91m", "▞", 'S'},
}};

std::string repeated(std::string_view text, int64_t times) {
  std::string out;
  for (; times > 0; --times) {
    out += text;
  }
  return out;
}

std::string spaces(int count) {
  return std::string(static_cast<size_t>(std::max(count, 0)), ' ');
}

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xc0u) == 0x80u;
}

}  // namespace

std::string bold(std::string_view text, const TextStyle& style) {
  return style.colour ? cat("\033[1m", text, kReset) : std::string(text);
}

std::string dim(std::string_view text, const TextStyle& style) {
  return style.colour ? cat("\033[2m", text, kReset) : std::string(text);
}

int display_width(std::string_view text) {
  int width = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\033') {
      i = std::min(text.find('m', i), text.size());
    } else if (!is_continuation(text[i])) {
      ++width;
    }
  }
  return width;
}

std::string shortened(std::string_view text, int width) {
  const auto size = static_cast<int>(text.size());
  if (size <= width || width < 4) {
    return std::string(text);
  }
  const auto head = static_cast<size_t>((width - 2) / 2);
  const auto tail = static_cast<size_t>(width) - 2 - head;
  return cat(text.substr(0, head), "..", text.substr(text.size() - tail));
}

std::string count_text(int64_t count) {
  return human_count(static_cast<double>(count));
}

std::string bytes_text(int64_t bytes) {
  return human_bytes(static_cast<double>(bytes));
}

std::string decimals(double value, int count) {
  char buffer[64];
  std::snprintf(buffer, sizeof(buffer), "%.*f", count, value);
  return buffer;
}

std::string percent(double share) {
  if (share > 0 && share < 0.001) {
    return "<0.1 %";
  }
  return decimals(share * 100, share < 0.9995 ? 1 : 0) + " %";
}

std::string bar(double share, int width, const TextStyle& style) {
  constexpr std::array<std::string_view, 8> kEighths = {
      "", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const double columns = std::clamp(share, 0.0, 1.0) * width;
  std::string out;
  if (style.ascii) {
    out = repeated("#", std::lround(columns));
  } else {
    const auto eighths = std::lround(columns * 8);
    out = repeated("█", eighths / 8);
    out += kEighths[static_cast<size_t>(eighths % 8)];
  }
  const std::string padding = spaces(width - display_width(out));
  if (style.colour && !out.empty()) {
    out = cat("\033[34m", out, kReset);
  }
  return out + padding;
}

std::string part_mark(size_t part, const TextStyle& style) {
  const PartLook& look = kParts[part % kParts.size()];
  if (style.ascii) {
    return std::string(1, look.letter);
  }
  return style.colour ? cat(look.colour, "█", kReset)
                      : std::string(look.pattern);
}

std::string stacked_bar(
    const std::vector<double>& parts, int width, const TextStyle& style) {
  double whole = 0;
  for (const double part : parts) {
    whole += part;
  }
  if (whole <= 0) {
    return "";
  }
  std::string out;
  double sum = 0;
  int64_t column = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    sum += parts[i];
    const int64_t end = std::lround(sum / whole * width);
    out += repeated(part_mark(i, style), end - column);
    column = end;
  }
  return out;
}

TextTable& TextTable::column(std::string heading, Align align) {
  headings_.push_back(std::move(heading));
  aligns_.push_back(align);
  return *this;
}

void TextTable::row(std::vector<std::string> cells) {
  WEFT_CHECK(cells.size() == headings_.size(), "cells: ", cells.size());
  rows_.push_back(std::move(cells));
}

std::string TextTable::print(const TextStyle& style, int indent) const {
  std::vector<int> widths(headings_.size());
  const auto widen = [&](const std::vector<std::string>& cells) {
    for (size_t i = 0; i < cells.size(); ++i) {
      widths[i] = std::max(widths[i], display_width(cells[i]));
    }
  };
  widen(headings_);
  std::for_each(rows_.begin(), rows_.end(), widen);

  std::string out;
  const auto add = [&](const std::vector<std::string>& cells, bool heading) {
    std::string line = spaces(indent);
    for (size_t i = 0; i < cells.size(); ++i) {
      const std::string padding = spaces(widths[i] - display_width(cells[i]));
      const std::string text = heading ? dim(cells[i], style) : cells[i];
      line += i == 0 ? "" : "  ";
      line += aligns_[i] == Align::Right ? padding + text : text + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  };
  if (std::any_of(headings_.begin(), headings_.end(), [](const auto& text) {
        return !text.empty();
      })) {
    add(headings_, true);
  }
  for (const auto& cells : rows_) {
    add(cells, false);
  }
  return out;
}

}  // namespace weft
