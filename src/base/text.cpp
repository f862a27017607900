// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include "base/error.h"

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <system_error>
#include <unistd.h>

namespace weft {

namespace {

constexpr char kHexDigits[] = "0123456789abcdef";

// -1 for a character that is not a hexadecimal digit.
int hex_digit(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  if (c >= 'a' && c <= 'f') {
    return c - 'a' + 10;
  }
  if (c >= 'A' && c <= 'F') {
    return c - 'A' + 10;
  }
  return -1;
}

std::string fixed(double value, int decimals) {
  char buffer[64];
  std::snprintf(buffer, sizeof(buffer), "%.*f", decimals, value);
  return buffer;
}

// Three significant digits: "1.50", "91.2", "512".
std::string three_digits(double value) {
  if (value < 9.995) {
    return fixed(value, 2);
  }
  return fixed(value, value < 99.95 ? 1 : 0);
}

// Scales by `base` until the number prints below it; the suffix of the scale
// follows the number. The first suffix is for unscaled numbers, which keep
// their decimals only when they have any.
std::string scaled(
    double value, double base, const std::vector<std::string_view>& suffixes) {
  if (!std::isfinite(value)) {
    return cat(std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
  }
  const std::string sign = value < 0 ? "-" : "";
  double magnitude = std::fabs(value);
  size_t scale = 0;
  while (scale + 1 < suffixes.size() && magnitude >= base - 0.5) {
    magnitude /= base;
    ++scale;
  }
  const bool whole = scale == 0 && magnitude == std::floor(magnitude);
  const std::string number =
      whole ? fixed(magnitude, 0) : three_digits(magnitude);
  return cat(sign, number, suffixes[scale]);
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

[[noreturn]] void fail_file(
    std::string_view verb, const std::string& path, int error) {
  throw UserError(
      cat("cannot ", verb, " '", path, "': ", std::strerror(error)));
}

// A new file under a name that nobody was told: what stands there is left from
// a process that was killed, or is a link that someone put there. Not followed.
File open_beside(const std::string& path) {
  constexpr int kNew = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
  int file = ::open(path.c_str(), kNew, 0666);
  if (file < 0 && errno == EEXIST && ::unlink(path.c_str()) == 0) {
    file = ::open(path.c_str(), kNew, 0666);
  }
  return File(file < 0 ? nullptr : ::fdopen(file, "wb"));
}

void write_content(
    File file, const std::string& name_in_messages, std::string_view content) {
  if (!file) {
    fail_file("write", name_in_messages, errno);
  }
  const bool written =
      content.empty() ||
      std::fwrite(content.data(), 1, content.size(), file.get()) ==
          content.size();
  const int write_error = errno;
  const bool closed = std::fclose(file.release()) == 0;
  if (!written || !closed) {
    fail_file("write", name_in_messages, written ? errno : write_error);
  }
}

}  // namespace

std::string join(
    const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) {
      out += separator;
    }
    out += parts[i];
  }
  return out;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  size_t start = 0;
  while (true) {
    const size_t end = text.find(separator, start);
    if (end == std::string_view::npos) {
      parts.emplace_back(text.substr(start));
      return parts;
    }
    parts.emplace_back(text.substr(start, end - start));
    start = end + 1;
  }
}

std::string print_double(double value) {
  if (std::isnan(value)) {
    return "nan";
  }
  if (std::isinf(value)) {
    return value < 0 ? "-inf" : "inf";
  }
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value).ptr;
  std::string text(buffer, end);
  if (text.find_first_of(".e") == std::string::npos) {
    text += ".0";
  }
  return text;
}

std::string quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\x";
      out += kHexDigits[byte >> 4];
      out += kHexDigits[byte & 15];
    } else {
      out += c;
    }
  }
  out += '"';
  return out;
}

std::string with_commas(int64_t value) {
  std::string digits = std::to_string(value);
  const size_t first = value < 0 ? 1 : 0;
  for (size_t i = digits.size(); i > first + 3;) {
    i -= 3;
    digits.insert(i, ",");
  }
  return digits;
}

std::string human_bytes(double bytes) {
  return scaled(
      bytes, 1024, {" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"});
}

std::string human_count(double count) {
  return scaled(count, 1000, {"", " K", " M", " G", " T", " P", " E"});
}

std::string to_hex(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += kHexDigits[byte >> 4];
    out += kHexDigits[byte & 15];
  }
  return out;
}

std::string from_hex(std::string_view text) {
  WEFT_CHECK_USER(
      text.size() % 2 == 0,
      "hexadecimal text has an odd number of digits: ",
      text.size());
  std::string out;
  out.reserve(text.size() / 2);
  for (size_t i = 0; i < text.size(); i += 2) {
    const int high = hex_digit(text[i]);
    const int low = hex_digit(text[i + 1]);
    WEFT_CHECK_USER(
        high >= 0 && low >= 0,
        "not hexadecimal digits: ",
        quote(text.substr(i, 2)));
    out += static_cast<char>(high * 16 + low);
  }
  return out;
}

std::string read_file(const std::string& path) {
  const File file(std::fopen(path.c_str(), "rb"));
  if (!file) {
    fail_file("read", path, errno);
  }
  std::string content;
  char buffer[1 << 16];
  while (true) {
    const size_t count = std::fread(buffer, 1, sizeof(buffer), file.get());
    content.append(buffer, count);
    if (count < sizeof(buffer)) {
      break;
    }
  }
  if (std::ferror(file.get()) != 0) {
    fail_file("read", path, errno);
  }
  return content;
}

void write_file(const std::string& path, std::string_view content) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  // A pipe or a device is written to, not replaced; a link is followed.
  if (fs::exists(path, ignored) && !fs::is_regular_file(path, ignored)) {
    write_content(File(std::fopen(path.c_str(), "wb")), path, content);
    return;
  }
  const fs::path real = fs::is_symlink(path, ignored)
                            ? fs::weakly_canonical(path, ignored)
                            : fs::path(path);
  const std::string beside = cat(real.string(), ".", getpid(), ".tmp");
  try {
    write_content(open_beside(beside), path, content);
  } catch (const UserError&) {
    fs::remove(beside, ignored);
    throw;
  }
  if (std::rename(beside.c_str(), real.c_str()) != 0) {
    const int error = errno;
    fs::remove(beside, ignored);
    fail_file("write", path, error);
  }
}

}  // namespace weft
