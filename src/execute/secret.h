// SPDX-License-Identifier: Apache-2.0
// What the ranks of a run over several hosts know, and nobody else. It never
// leaves a process: each side proves to the other that it knows it, by an
// HMAC-SHA256 of numbers that both have just drawn.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace weft {

inline constexpr const char* kSecretVariable = "WEFT_SECRET";
inline constexpr const char* kSecretFileVariable = "WEFT_SECRET_FILE";

// The bytes of the file that WEFT_SECRET_FILE names, without white space at
// their end, or the text of WEFT_SECRET; nullopt without either. Throws
// UserError when both are set, when the file cannot be read or others than its
// owner may read it, and for a secret of fewer than 16 bytes.
std::optional<std::string> secret_from_environment();

inline constexpr size_t kChallengeBytes = 32;
using Challenge = std::array<std::byte, kChallengeBytes>;
using Proof = std::array<std::byte, 32>;

// From the system's source of random numbers.
Challenge draw_challenge();

// What only one who knows the secret can answer to the two challenges. `role`
// keeps one side's answer from being sent back as the other's.
Proof prove(
    std::string_view secret,
    std::string_view role,
    const Challenge& server,
    const Challenge& client);

// In a time that does not tell where they differ.
bool is_equal(const Proof& a, const Proof& b);

// 32 hexadecimal digits that nobody can guess.
std::string unguessable_name();

}  // namespace weft
