// SPDX-License-Identifier: Apache-2.0
#include "execute/secret.h"

#include "base/error.h"
#include "base/text.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace weft {
namespace {

// Shorter ones can be found by trying, by who has seen one proof.
constexpr size_t kShortestSecretBytes = 16;
constexpr size_t kLongestSecretBytes = 4096;
constexpr const char* kHowToMake =
    "make one with `(umask 077; head -c 32 /dev/urandom | base64 > FILE)`";

class OpenFile {
 public:
  explicit OpenFile(const std::string& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY)) {}
  ~OpenFile() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int fd() const { return fd_; }

 private:
  int fd_;
};

std::string read_secret(const std::string& path) {
  const OpenFile file(path);
  struct stat status = {};
  WEFT_CHECK_USER(
      file.fd() >= 0 && ::fstat(file.fd(), &status) == 0,
      kSecretFileVariable,
      ": cannot read ",
      path,
      ": ",
      std::strerror(errno));
  WEFT_CHECK_USER(
      (status.st_mode & (S_IRWXG | S_IRWXO)) == 0,
      kSecretFileVariable,
      ": others than its owner may read or write ",
      path,
      ": chmod 600 it");
  // One byte more than is allowed, so that a longer one is seen.
  std::string text(kLongestSecretBytes + 1, '\0');
  const ssize_t count = ::read(file.fd(), text.data(), text.size());
  WEFT_CHECK_USER(
      count >= 0,
      kSecretFileVariable,
      ": cannot read ",
      path,
      ": ",
      std::strerror(errno));
  text.resize(static_cast<size_t>(count));
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  return text;
}

}  // namespace

std::optional<std::string> secret_from_environment() {
  const char* file = std::getenv(kSecretFileVariable);
  const char* text = std::getenv(kSecretVariable);
  if (file == nullptr && text == nullptr) {
    return std::nullopt;
  }
  WEFT_CHECK_USER(
      file == nullptr || text == nullptr,
      kSecretFileVariable,
      " and ",
      kSecretVariable,
      " are both set: keep one of them");
  const char* variable =
      file != nullptr ? kSecretFileVariable : kSecretVariable;
  std::optional<std::string> result;
  std::string& secret =
      result.emplace(file != nullptr ? read_secret(file) : text);
  WEFT_CHECK_USER(
      secret.size() >= kShortestSecretBytes &&
          secret.size() <= kLongestSecretBytes,
      variable,
      ": a secret has from ",
      kShortestSecretBytes,
      " to ",
      kLongestSecretBytes,
      " bytes, and this one has ",
      secret.size() > kLongestSecretBytes ? "more" : cat(secret.size()),
      ": ",
      kHowToMake);
  return result;
}

Challenge draw_challenge() {
  Challenge challenge;
  // Up to 256 bytes come at once, or not at all.
  const ssize_t count = ::getrandom(challenge.data(), challenge.size(), 0);
  WEFT_CHECK(
      count == static_cast<ssize_t>(challenge.size()),
      "no random numbers from the system: ",
      std::strerror(errno));
  return challenge;
}

Proof prove(
    std::string_view secret,
    std::string_view role,
    const Challenge& server,
    const Challenge& client) {
  std::vector<std::byte> message;
  const auto append = [&](std::span<const std::byte> part) {
    message.insert(message.end(), part.begin(), part.end());
  };
  append(server);
  append(client);
  append(std::as_bytes(std::span(role)));
  Proof proof;
  unsigned int size = 0;
  const unsigned char* made = ::HMAC(
      ::EVP_sha256(),
      secret.data(),
      static_cast<int>(secret.size()),
      reinterpret_cast<const unsigned char*>(message.data()),
      message.size(),
      reinterpret_cast<unsigned char*>(proof.data()),
      &size);
  WEFT_CHECK(made != nullptr && size == proof.size(), "no HMAC-SHA256");
  return proof;
}

bool is_equal(const Proof& a, const Proof& b) {
  return ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string unguessable_name() {
  const Challenge random = draw_challenge();
  return to_hex(
      {reinterpret_cast<const char*>(random.data()), random.size() / 2});
}

}  // namespace weft
