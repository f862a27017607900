# One folder of src/ is one static library, `weft_<folder>`, with its tests.
# Who may use whom is read from ARCHITECTURE.md, so the map that people read is
# the one that links: `weft_graph` cannot call into `weft_search`, for it is
# not on its link line.

set(weft_map ${CMAKE_SOURCE_DIR}/ARCHITECTURE.md)
set_property(
  DIRECTORY ${CMAKE_SOURCE_DIR}
  APPEND
  PROPERTY CMAKE_CONFIGURE_DEPENDS ${weft_map}
)

# Sets WEFT_FOLDERS (lowest first) and WEFT_USES_<folder> in the caller.
function(weft_read_layers)
  file(READ ${weft_map} text)
  if(NOT text MATCHES "```layers\n([^`]*)```")
    message(FATAL_ERROR "ARCHITECTURE.md has no ```layers block")
  endif()
  string(REPLACE "\n" ";" lines "${CMAKE_MATCH_1}")
  foreach(line IN LISTS lines)
    if(NOT line MATCHES "^([a-z]+):(.*)$")
      continue()
    endif()
    set(folder ${CMAKE_MATCH_1})
    separate_arguments(uses UNIX_COMMAND "${CMAKE_MATCH_2}")
    if("*" IN_LIST uses)
      set(uses ${folders} torch)
    endif()
    list(APPEND folders ${folder})
    set(WEFT_USES_${folder} "${uses}" PARENT_SCOPE)
  endforeach()
  set(WEFT_FOLDERS "${folders}" PARENT_SCOPE)
endfunction()

# Reading the headers behind nearly every file takes longer than compiling it.
# Each of these compiles some of them once, and the targets share the result:
# `weft_headers` those of the language, `weft_test_headers` GoogleTest too,
# `weft_torch_headers` torch's.
function(weft_precompiled_header name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "HEADERS;USES")
  set(source ${CMAKE_BINARY_DIR}/${name}.cpp)
  file(
    CONFIGURE
    OUTPUT ${source}
    CONTENT "// The object that owns the precompiled header.\n"
  )
  add_library(${name} OBJECT ${source})
  target_link_libraries(${name} PRIVATE ${arg_USES} weft_warnings)
  target_precompile_headers(${name} PRIVATE ${arg_HEADERS})
endfunction()

function(weft_precompiled_headers)
  set(
    language
    <algorithm>
    <array>
    <cmath>
    <cstdint>
    <filesystem>
    <functional>
    <map>
    <memory>
    <numeric>
    <optional>
    <set>
    <span>
    <sstream>
    <string>
    <string_view>
    <unordered_map>
    <unordered_set>
    <variant>
    <vector>
  )
  weft_precompiled_header(weft_headers HEADERS ${language})
  if(WEFT_TESTS)
    weft_precompiled_header(
      weft_test_headers
      HEADERS ${language} <gtest/gtest.h>
      USES GTest::gtest_main
    )
  endif()
  if(WEFT_TORCH)
    weft_precompiled_header(
      weft_torch_headers
      HEADERS
        <ATen/core/Tensor.h>
        <ATen/core/dispatch/Dispatcher.h>
        <torch/library.h>
      USES weft::torch
    )
  endif()
endfunction()

# weft_target(<target> USES <folder, torch, highs or crypto>...
# [HEADERS <precompiled>]): what every target of ours has in common.
function(weft_target target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "HEADERS" "USES")
  target_include_directories(${target} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(${target} PRIVATE weft_warnings)
  foreach(used IN LISTS arg_USES)
    if(used STREQUAL "torch")
      target_link_libraries(${target} PUBLIC weft::torch)
      set(arg_HEADERS weft_torch_headers)
    elseif(used STREQUAL "highs")
      target_link_libraries(${target} PUBLIC weft::highs)
    elseif(used STREQUAL "crypto")
      target_link_libraries(${target} PUBLIC OpenSSL::Crypto)
    else()
      target_link_libraries(${target} PUBLIC weft_${used})
    endif()
  endforeach()
  if(NOT arg_HEADERS)
    set(arg_HEADERS weft_headers)
  endif()
  target_precompile_headers(${target} REUSE_FROM ${arg_HEADERS})
endfunction()

# weft_gtest(<name> SOURCES ... USES ...): a test program, known to ctest under
# its folder's name. What needs no torch is labelled `fast`.
function(weft_gtest name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;USES")
  add_executable(${name} ${arg_SOURCES})
  weft_target(${name} USES ${arg_USES} HEADERS weft_test_headers)
  target_link_libraries(${name} PRIVATE GTest::gtest_main)
  if("torch" IN_LIST arg_USES)
    set_target_properties(
      ${name}
      PROPERTIES UNITY_BUILD ${WEFT_UNITY} UNITY_BUILD_BATCH_SIZE 6
    )
  endif()
  add_test(NAME ${name} COMMAND ${name})
  string(REGEX REPLACE "_test$" "" labels ${name})
  if(NOT "torch" IN_LIST arg_USES)
    list(APPEND labels fast)
  endif()
  # Ranks that wait for one another must not hang the whole run.
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT 600)
endfunction()

# weft_library(<folder> USES <folder, torch, highs or crypto>...): all sources
# of the folder.
# A main.cpp is left out: a program has one, a library and its tests have none.
function(weft_library folder)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "USES")
  set(here ${CMAKE_SOURCE_DIR}/src/${folder})
  file(GLOB sources CONFIGURE_DEPENDS ${here}/*.cpp)
  file(GLOB headers CONFIGURE_DEPENDS ${here}/*.h)
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "(_test|/main)\\.cpp$")

  add_library(weft_${folder} STATIC ${sources})
  weft_target(weft_${folder} USES ${arg_USES})
  set_target_properties(
    weft_${folder}
    PROPERTIES UNITY_BUILD ${WEFT_UNITY} UNITY_BUILD_BATCH_SIZE 12
  )
  target_sources(
    weft_${folder}
    PUBLIC FILE_SET HEADERS BASE_DIRS ${CMAKE_SOURCE_DIR}/src FILES ${headers}
  )
  if(WEFT_TESTS AND tests)
    weft_gtest(${folder}_test SOURCES ${tests} USES ${folder} ${arg_USES})
  endif()
endfunction()
