// SPDX-License-Identifier: Apache-2.0
// What we call of HiGHS, by its C interface (highs_c_api.h of version 1.15):
// its Python package brings the library without headers. Names are those of
// HiGHS; its integers are `int` unless it was built for 64 bits, which ilp.cpp
// checks. Only ilp.cpp includes this.
#pragma once

// NOLINTBEGIN(readability-identifier-naming)
extern "C" {

void* Highs_create(void);
void Highs_destroy(void* highs);
int Highs_getSizeofHighsInt(const void* highs);

int Highs_setBoolOptionValue(void* highs, const char* option, int value);
int Highs_setIntOptionValue(void* highs, const char* option, int value);
int Highs_setDoubleOptionValue(void* highs, const char* option, double value);
int Highs_setStringOptionValue(
    void* highs, const char* option, const char* value);

// The matrix by rows: `row_start` has `row_count` numbers, `term_variable` and
// `term_factor` have `term_count`.
int Highs_passMip(
    void* highs,
    int variable_count,
    int row_count,
    int term_count,
    int matrix_format,
    int sense,
    double offset,
    const double* cost,
    const double* lower,
    const double* upper,
    const double* row_lower,
    const double* row_upper,
    const int* row_start,
    const int* term_variable,
    const double* term_factor,
    const int* integrality);

int Highs_run(void* highs);
int Highs_getModelStatus(const void* highs);
int Highs_getIntInfoValue(const void* highs, const char* info, int* value);
int Highs_getSolution(
    const void* highs,
    double* value,
    double* reduced_cost,
    double* row_value,
    double* row_price);

}  // extern "C"
// NOLINTEND(readability-identifier-naming)

namespace weft::highs {

inline constexpr int kError = -1;
inline constexpr int kContinuous = 0;
inline constexpr int kInteger = 1;
inline constexpr int kByRows = 2;
inline constexpr int kMinimize = 1;
inline constexpr int kFeasible = 2;  // of "primal_solution_status"

inline constexpr int kModelEmpty = 6;
inline constexpr int kOptimal = 7;
inline constexpr int kInfeasible = 8;
inline constexpr int kUnbounded = 10;
inline constexpr int kTimeLimit = 13;

}  // namespace weft::highs
