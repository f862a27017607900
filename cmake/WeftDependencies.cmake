# What Weft builds upon. Header-only libraries are found by the compiler itself;
# tools/setup.sh has made sure that they are there.

find_package(Threads REQUIRED)
find_package(nlohmann_json REQUIRED)
if(WEFT_TESTS)
  find_package(GTest REQUIRED)
endif()

# The Python that torch and HiGHS belong to: the one that called us (a wheel
# being built names it), or the clone's own environment.
if(NOT Python_EXECUTABLE AND EXISTS ${CMAKE_SOURCE_DIR}/.venv/bin/python)
  set(Python_EXECUTABLE ${CMAKE_SOURCE_DIR}/.venv/bin/python)
endif()
set(components Interpreter)
if(WEFT_TORCH)
  list(APPEND components Development.Module)
endif()
find_package(Python 3.10 REQUIRED COMPONENTS ${components})
find_package(WeftHighs 1.15 REQUIRED)

# The process that plans a model of Python is started with it, where it is there.
find_library(WEFT_JEMALLOC NAMES jemalloc libjemalloc.so.2)

if(WEFT_TORCH)
  find_package(WeftTorch REQUIRED)
  find_package(OpenSSL REQUIRED COMPONENTS Crypto)

  # From the root of an environment to its packages. Programs find the libraries
  # of torch and HiGHS by it, whatever the environment is called and wherever it
  # lies.
  execute_process(
    COMMAND
      ${Python_EXECUTABLE} -c
      "import sysconfig; print(sysconfig.get_path('platlib', vars={'base': '', 'platbase': ''}).lstrip('/'))"
    OUTPUT_VARIABLE WEFT_SITE_PACKAGES
    OUTPUT_STRIP_TRAILING_WHITESPACE
    COMMAND_ERROR_IS_FATAL ANY
  )
endif()
