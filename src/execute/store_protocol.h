// SPDX-License-Identifier: Apache-2.0
// What a run's store and its clients say to each other. On a port, each first
// proves to the other that it knows the run's secret, in texts of fixed sizes;
// before that nothing else of a peer is looked at. Then the client asks and the
// store answers, one message each.
#pragma once

#include "execute/secret.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// What a message asks for, or tells.
enum class StoreWord : uint8_t {
  // Questions, with their fields.
  Set = 1,     // key, value, key, value ...
  CompareSet,  // key, expected, desired
  Get,         // keys
  Add,         // key, number
  Delete,      // key
  Check,       // keys
  Count,       // none
  Append,      // key, value
  // Answers.
  Here = 64,  // what was asked for
  Absent,     // a key is not there
  Fault,      // why it cannot be answered
};

struct StoreMessage {
  StoreWord word = StoreWord::Fault;
  std::vector<std::string> fields = {};
};

// More in one message is a fault: 1 GiB.
inline constexpr size_t kLongestMessageBytes = size_t{1} << 30;

// With its length in front.
std::string encode(const StoreMessage& message);

// How many bytes follow the length in front of a message. Throws UserError for
// one that is too long.
inline constexpr size_t kLengthBytes = 4;
size_t body_bytes(std::string_view length);
// The message without its length. Throws UserError for one that encode does
// not make.
StoreMessage decode(std::string_view body);

// Never throws: what cannot be done is a Fault. `keys` is not waited for.
StoreMessage answer(c10d::Store& keys, const StoreMessage& question);

// The store begins, with its challenge.
inline constexpr std::string_view kStoreGreeting = "weft store 1 ...";
inline constexpr size_t kGreetingBytes =
    kStoreGreeting.size() + kChallengeBytes;
std::string greeting(const Challenge& server);

// The client's own challenge and its proof; nullopt when that is not a store's
// greeting. Without a secret the proof is empty, and will be refused.
struct ClientProof {
  std::string text;
  // What the store has to answer.
  Proof expected = {};
};
std::optional<ClientProof> prove_to_store(
    std::string_view greeting, const std::optional<std::string>& secret);

// The store's proof; nullopt for a client that does not know the secret, or
// that is none.
inline constexpr size_t kClientProofBytes =
    kStoreGreeting.size() + kChallengeBytes + sizeof(Proof);
std::optional<std::string> admit(
    std::string_view client_proof,
    const Challenge& server,
    std::string_view secret);

// What the store sends in place of its proof.
std::string refusal();

}  // namespace weft
