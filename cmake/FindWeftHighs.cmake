# HiGHS, the solver of linear programmes, taken from the installed Python
# package highspy: its library has the C interface and needs nothing but the
# language's own libraries. The package has no headers; what we call is declared
# in src/search/highs_api.h.
#
#   weft::highs
#   WeftHighs_LIBRARY, WeftHighs_VERSION

if(NOT WeftHighs_ROOT)
  execute_process(
    COMMAND
      ${Python_EXECUTABLE} -c
      "from importlib.util import find_spec; print(find_spec('highspy').submodule_search_locations[0])"
    OUTPUT_VARIABLE WeftHighs_ROOT
    OUTPUT_STRIP_TRAILING_WHITESPACE
    ERROR_QUIET
  )
endif()

# The name that programs ask the loader for carries the version of the C
# interface.
set(soname libhighs.so.1)
if(EXISTS ${WeftHighs_ROOT}/${soname})
  set(WeftHighs_LIBRARY ${WeftHighs_ROOT}/${soname})
  file(GLOB versioned ${WeftHighs_ROOT}/${soname}.*)
  if(versioned MATCHES "libhighs\\.so\\.([0-9.]+)$")
    set(WeftHighs_VERSION ${CMAKE_MATCH_1})
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  WeftHighs
  REQUIRED_VARS WeftHighs_LIBRARY
  VERSION_VAR WeftHighs_VERSION
  REASON_FAILURE_MESSAGE
    "no highspy package in ${Python_EXECUTABLE}: run tools/setup.sh"
)

if(WeftHighs_FOUND AND NOT TARGET weft::highs)
  add_library(weft::highs SHARED IMPORTED GLOBAL)
  set_target_properties(
    weft::highs
    PROPERTIES IMPORTED_LOCATION ${WeftHighs_LIBRARY} IMPORTED_SONAME ${soname}
  )
endif()
