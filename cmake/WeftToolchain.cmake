# The language, the warnings, and the tools that make building quick.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
# Every library may end up in the Python extension. As a flag and not by CMake's
# property, which compiles programs with -fPIE: the torch folders' tests then
# could not share the folders' precompiled header.
add_compile_options(-fPIC)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# `all_verify_interface_header_sets` compiles every header by itself.
set(CMAKE_VERIFY_INTERFACE_HEADER_SETS ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g -D_GLIBCXX_ASSERTIONS")

# An interface target and not global flags: only our own code answers to it.
add_library(weft_warnings INTERFACE)
target_compile_options(
  weft_warnings
  INTERFACE
    -Wall
    -Wextra
    -Wshadow
    -Wconversion
    # gcc 12 sees these where std::variant and std::string are moved, at -O2
    # only, and where nothing is wrong.
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>
    $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
    $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow>
    $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds>
    $<$<BOOL:${WEFT_WERROR}>:-Werror>
)

if(WEFT_SANITIZE)
  set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1 -D_GLIBCXX_ASSERTIONS")
  add_compile_options(
    -fsanitize=address,undefined
    -fno-sanitize-recover=all
    -fno-omit-frame-pointer
  )
  add_link_options(-fsanitize=address,undefined)
endif()

if(WEFT_FUZZ)
  # Coverage of everything, for the fuzzers alone to link what follows it.
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

find_program(WEFT_CCACHE ccache)
if(WEFT_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths are made relative, so another clone on this machine finds the same
  # entries; the sloppiness is what ccache asks for with a precompiled header.
  set(
    CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND}
    -E
    env
    CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}
    CCACHE_NOHASHDIR=1
    CCACHE_ABSSTDERR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
    ${WEFT_CCACHE}
  )
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-fpch-preprocess)
  endif()
  file(RELATIVE_PATH weft_root ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR})
else()
  set(weft_root ${CMAKE_SOURCE_DIR})
endif()
# An InternalError names its file from the root of the repository.
add_compile_options(-fmacro-prefix-map=${weft_root}/=)

find_program(WEFT_MOLD mold)
if(WEFT_MOLD)
  include(CheckLinkerFlag)
  check_linker_flag(CXX -fuse-ld=mold WEFT_LINKS_WITH_MOLD)
  if(WEFT_LINKS_WITH_MOLD)
    add_link_options(-fuse-ld=mold)
  endif()
endif()
