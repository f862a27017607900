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

# The headers behind nearly every torch file of ours take seconds to read;
# `weft_torch_headers` compiles them once and the folders share the result.
function(weft_torch_precompiled_header)
  file(
    CONFIGURE
    OUTPUT ${CMAKE_BINARY_DIR}/torch_headers.cpp
    CONTENT "// The object that owns the precompiled header.\n"
  )
  add_library(weft_torch_headers OBJECT ${CMAKE_BINARY_DIR}/torch_headers.cpp)
  target_link_libraries(weft_torch_headers PRIVATE weft::torch weft_warnings)
  target_precompile_headers(
    weft_torch_headers
    PRIVATE
      <ATen/core/Tensor.h>
      <ATen/core/dispatch/Dispatcher.h>
      <torch/library.h>
  )
endfunction()

# weft_target(<target> USES <folder or torch>...): what every target of ours has
# in common.
function(weft_target target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "USES")
  target_include_directories(${target} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(${target} PRIVATE weft_warnings)
  foreach(used IN LISTS arg_USES)
    if(used STREQUAL "torch")
      target_link_libraries(${target} PUBLIC weft::torch)
      target_precompile_headers(${target} REUSE_FROM weft_torch_headers)
    else()
      target_link_libraries(${target} PUBLIC weft_${used})
    endif()
  endforeach()
endfunction()

# weft_gtest(<name> SOURCES ... USES ...): a test program, known to ctest under
# its folder's name. What needs no torch is labelled `fast`.
function(weft_gtest name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;USES")
  add_executable(${name} ${arg_SOURCES})
  weft_target(${name} USES ${arg_USES})
  target_link_libraries(${name} PRIVATE GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name})
  string(REGEX REPLACE "_test$" "" labels ${name})
  if(NOT "torch" IN_LIST arg_USES)
    list(APPEND labels fast)
  endif()
  # Ranks that wait for one another must not hang the whole run.
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT 600)
endfunction()

# weft_library(<folder> USES <folder or torch>...): all sources of the folder.
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
  target_sources(
    weft_${folder}
    PUBLIC FILE_SET HEADERS BASE_DIRS ${CMAKE_SOURCE_DIR}/src FILES ${headers}
  )
  if(WEFT_TESTS AND tests)
    weft_gtest(${folder}_test SOURCES ${tests} USES ${folder} ${arg_USES})
  endif()
endfunction()
