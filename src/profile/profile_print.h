// SPDX-License-Identifier: Apache-2.0
// A Profile as text for people. Programs read to_json().
#pragma once

#include "profile/profile.h"
#include "profile/text_table.h"

#include <cstdint>
#include <string>

namespace weft {

enum class ProfileBy : uint8_t { Module, Op, Phase };

struct ProfileView {
  ProfileBy by = ProfileBy::Module;
  // Levels of modules below the model.
  int depth = 2;
  TextStyle style;
};

// A summary, and below it a table by module, operator or phase.
std::string print(const Profile& profile, const ProfileView& view = {});

// Only the summary: parameters, flops, what is alive at the peak, layers.
std::string print_summary(const Profile& profile, const TextStyle& style);

// Only the table. Siblings that cost the same share a row.
std::string print_table(const Profile& profile, const ProfileView& view);

// The figures of two profiles side by side, with the second over the first.
std::string print_comparison(
    const std::string& first_name,
    const Profile& first,
    const std::string& second_name,
    const Profile& second,
    const TextStyle& style);

}  // namespace weft
