// SPDX-License-Identifier: Apache-2.0
#include "execute/store_protocol.h"

#include "base/error.h"
#include "base/number.h"

#include <cstring>
#include <optional>

namespace weft {
namespace {

constexpr std::string_view kServerRole = "store";
constexpr std::string_view kClientRole = "rank";

void append_length(std::string& text, size_t length) {
  for (size_t byte = 0; byte < kLengthBytes; ++byte) {
    text += static_cast<char>(length >> (8 * byte) & 0xff);
  }
}

size_t read_length(std::string_view text) {
  size_t length = 0;
  for (size_t byte = 0; byte < kLengthBytes; ++byte) {
    length |= static_cast<size_t>(static_cast<unsigned char>(text[byte]))
              << (8 * byte);
  }
  return length;
}

template <typename Array>
std::string text_of(const Array& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <typename Array>
Array array_of(std::string_view text) {
  Array bytes;
  WEFT_CHECK(text.size() == bytes.size(), text.size());
  std::memcpy(bytes.data(), text.data(), bytes.size());
  return bytes;
}

std::vector<uint8_t> value_of(const std::string& field) {
  return {field.begin(), field.end()};
}

std::string field_of(const std::vector<uint8_t>& value) {
  return {value.begin(), value.end()};
}

int64_t number_of_field(const std::string& field) {
  const std::optional<int64_t> number = read_integer(field);
  WEFT_CHECK_USER(number, "not a number: ", quote(field));
  return *number;
}

void expect_fields(const StoreMessage& question, bool is_right) {
  WEFT_CHECK_USER(
      is_right,
      "question ",
      static_cast<int>(question.word),
      " with ",
      question.fields.size(),
      " fields");
}

StoreMessage look_up(c10d::Store& keys, const StoreMessage& question) {
  if (!keys.check(question.fields)) {
    return {StoreWord::Absent};
  }
  StoreMessage found{StoreWord::Here};
  for (const std::string& key : question.fields) {
    found.fields.push_back(field_of(keys.get(key)));
  }
  return found;
}

StoreMessage answer_or_throw(c10d::Store& keys, const StoreMessage& question) {
  const std::vector<std::string>& fields = question.fields;
  switch (question.word) {
    case StoreWord::Set:
      expect_fields(question, fields.size() % 2 == 0);
      for (size_t i = 0; i < fields.size(); i += 2) {
        keys.set(fields[i], value_of(fields[i + 1]));
      }
      return {StoreWord::Here};
    case StoreWord::CompareSet:
      expect_fields(question, fields.size() == 3);
      return {
          StoreWord::Here,
          {field_of(keys.compareSet(
              fields[0], value_of(fields[1]), value_of(fields[2])))}};
    case StoreWord::Get:
      return look_up(keys, question);
    case StoreWord::Add:
      expect_fields(question, fields.size() == 2);
      return {
          StoreWord::Here,
          {cat(keys.add(fields[0], number_of_field(fields[1])))}};
    case StoreWord::Delete:
      expect_fields(question, fields.size() == 1);
      return {StoreWord::Here, {keys.deleteKey(fields[0]) ? "1" : "0"}};
    case StoreWord::Check:
      return {StoreWord::Here, {keys.check(fields) ? "1" : "0"}};
    case StoreWord::Count:
      return {StoreWord::Here, {cat(keys.getNumKeys())}};
    case StoreWord::Append:
      expect_fields(question, fields.size() == 2);
      keys.append(fields[0], value_of(fields[1]));
      return {StoreWord::Here};
    case StoreWord::Here:
    case StoreWord::Absent:
    case StoreWord::Fault:
      break;
  }
  throw UserError(
      cat("there is no question ", static_cast<int>(question.word)));
}

}  // namespace

std::string encode(const StoreMessage& message) {
  size_t bytes = 1;
  for (const std::string& field : message.fields) {
    bytes += kLengthBytes + field.size();
  }
  WEFT_CHECK_USER(
      bytes <= kLongestMessageBytes,
      "a message of ",
      human_bytes(static_cast<double>(bytes)),
      " to the store is more than it takes");
  std::string text;
  text.reserve(kLengthBytes + bytes);
  append_length(text, bytes);
  text += static_cast<char>(message.word);
  for (const std::string& field : message.fields) {
    append_length(text, field.size());
    text += field;
  }
  return text;
}

size_t body_bytes(std::string_view length) {
  const size_t bytes = read_length(length);
  WEFT_CHECK_USER(
      bytes >= 1 && bytes <= kLongestMessageBytes,
      "a message of ",
      bytes,
      " bytes");
  return bytes;
}

StoreMessage decode(std::string_view body) {
  WEFT_CHECK_USER(!body.empty(), "a message without a word");
  StoreMessage message{static_cast<StoreWord>(body.front())};
  body.remove_prefix(1);
  while (!body.empty()) {
    const size_t bytes =
        body.size() < kLengthBytes ? body.size() : read_length(body);
    WEFT_CHECK_USER(
        bytes + kLengthBytes <= body.size(), "a message that is cut short");
    message.fields.emplace_back(body.substr(kLengthBytes, bytes));
    body.remove_prefix(kLengthBytes + bytes);
  }
  return message;
}

StoreMessage answer(c10d::Store& keys, const StoreMessage& question) {
  try {
    return answer_or_throw(keys, question);
  } catch (const c10::Error& error) {
    return {StoreWord::Fault, {error.what_without_backtrace()}};
  } catch (const std::exception& error) {
    return {StoreWord::Fault, {error.what()}};
  }
}

std::string greeting(const Challenge& server) {
  return cat(kStoreGreeting, text_of(server));
}

std::optional<ClientProof> prove_to_store(
    std::string_view greeting, const std::optional<std::string>& secret) {
  if (greeting.size() != kGreetingBytes ||
      !greeting.starts_with(kStoreGreeting)) {
    return std::nullopt;
  }
  const auto server =
      array_of<Challenge>(greeting.substr(kStoreGreeting.size()));
  const Challenge client = draw_challenge();
  ClientProof result;
  Proof own = {};
  if (secret) {
    own = prove(*secret, kClientRole, server, client);
    result.expected = prove(*secret, kServerRole, server, client);
  }
  result.text = cat(kStoreGreeting, text_of(client), text_of(own));
  return result;
}

std::optional<std::string> admit(
    std::string_view client_proof,
    const Challenge& server,
    std::string_view secret) {
  if (client_proof.size() != kClientProofBytes ||
      !client_proof.starts_with(kStoreGreeting)) {
    return std::nullopt;
  }
  client_proof.remove_prefix(kStoreGreeting.size());
  const auto client =
      array_of<Challenge>(client_proof.substr(0, kChallengeBytes));
  const auto proof = array_of<Proof>(client_proof.substr(kChallengeBytes));
  if (!is_equal(proof, prove(secret, kClientRole, server, client))) {
    return std::nullopt;
  }
  return text_of(prove(secret, kServerRole, server, client));
}

std::string refusal() { return std::string(sizeof(Proof), '\0'); }

}  // namespace weft
