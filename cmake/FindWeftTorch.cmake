# LibTorch, taken from the installed Python package.
#
# torch's own TorchConfig.cmake asks for the CUDA toolkit when the wheel has
# CUDA in it. We compile no device code, so headers and libraries are enough,
# for a CPU wheel and a CUDA wheel alike.
#
#   weft::torch         ATen, autograd, c10d: all that C++ needs
#   weft::torch_python  besides, what turns a Python tensor into an at::Tensor
#   WeftTorch_LIBRARY_DIR, WeftTorch_VERSION

if(NOT WeftTorch_ROOT)
  # find_spec locates the package without the second that importing it costs.
  execute_process(
    COMMAND
      ${Python_EXECUTABLE} -c
      "from importlib.util import find_spec; print(find_spec('torch').submodule_search_locations[0])"
    OUTPUT_VARIABLE WeftTorch_ROOT
    OUTPUT_STRIP_TRAILING_WHITESPACE
    ERROR_QUIET
  )
endif()

set(WeftTorch_INCLUDE_DIR ${WeftTorch_ROOT}/include)
set(WeftTorch_LIBRARY_DIR ${WeftTorch_ROOT}/lib)
if(EXISTS ${WeftTorch_ROOT}/version.py)
  file(STRINGS ${WeftTorch_ROOT}/version.py line REGEX "^__version__ =")
  string(REGEX REPLACE ".*'(.*)'.*" "\\1" WeftTorch_VERSION "${line}")
endif()

foreach(name torch torch_cpu c10 torch_python)
  set(file ${WeftTorch_LIBRARY_DIR}/lib${name}.so)
  if(EXISTS ${file})
    set(WeftTorch_${name}_LIBRARY ${file})
  endif()
endforeach()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  WeftTorch
  REQUIRED_VARS
    WeftTorch_torch_LIBRARY
    WeftTorch_torch_cpu_LIBRARY
    WeftTorch_c10_LIBRARY
    WeftTorch_torch_python_LIBRARY
  VERSION_VAR WeftTorch_VERSION
  REASON_FAILURE_MESSAGE
    "no torch package in ${Python_EXECUTABLE}: run tools/setup.sh"
)

if(WeftTorch_FOUND AND NOT TARGET weft::torch)
  # An interface and not an imported library, for the order of its link line:
  # nothing calls into libtorch.so itself, which only brings the device
  # libraries with it, so the linker would drop it.
  add_library(weft_torch INTERFACE)
  add_library(weft::torch ALIAS weft_torch)
  target_include_directories(
    weft_torch
    SYSTEM
    INTERFACE
      ${WeftTorch_INCLUDE_DIR}
      ${WeftTorch_INCLUDE_DIR}/torch/csrc/api/include
  )
  target_compile_definitions(weft_torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
  if(WEFT_NCCL)
    # c10d's NCCL is in the device library of a CUDA wheel.
    find_library(
      WeftTorch_torch_cuda_LIBRARY
      torch_cuda
      PATHS ${WeftTorch_LIBRARY_DIR}
      NO_DEFAULT_PATH
      REQUIRED
    )
    target_compile_definitions(weft_torch INTERFACE WEFT_NCCL USE_C10D_NCCL)
    target_link_libraries(weft_torch INTERFACE ${WeftTorch_torch_cuda_LIBRARY})
  endif()
  target_link_libraries(
    weft_torch
    INTERFACE
      -Wl,--no-as-needed
      ${WeftTorch_torch_LIBRARY}
      ${WeftTorch_torch_cpu_LIBRARY}
      -Wl,--as-needed
      ${WeftTorch_c10_LIBRARY}
      # The libraries of a CUDA wheel find theirs when they are loaded.
      -Wl,--allow-shlib-undefined
  )

  add_library(weft_torch_python INTERFACE)
  add_library(weft::torch_python ALIAS weft_torch_python)
  target_link_libraries(
    weft_torch_python
    INTERFACE weft::torch ${WeftTorch_torch_python_LIBRARY} Python::Module
  )
endif()
