# Options, compiler flags and the packages every part needs.
include_guard()

option(FEDQUEUE_BUILD_SERVER "Build fedserver" ON)
option(FEDQUEUE_BUILD_CLIENT "Build fedclient" ON)
option(FEDQUEUE_BUILD_TRAINER "Build the training side of fedclient (needs LibTorch)" ON)
option(FEDQUEUE_BUILD_PLUGIN "Build the SPANK plugin (needs Slurm's headers)" ON)
option(FEDQUEUE_BUILD_SIMULATION "Build fedsim" ON)
option(FEDQUEUE_BUILD_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(FEDQUEUE_BUILD_BENCHMARKS "Build the benchmarks" OFF)
option(FEDQUEUE_WITH_MPI "Use MPI between the ranks of a job" ON)
option(FEDQUEUE_WITH_CUDA "Use CUDA and NCCL for GPU tensors" OFF)
option(FEDQUEUE_WARNINGS_AS_ERRORS "Treat warnings as errors" OFF)
set(FEDQUEUE_SANITIZE "" CACHE STRING "Sanitizers, as for -fsanitize= (address,undefined or thread)")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
find_program(FEDQUEUE_CCACHE ccache)
if(FEDQUEUE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${FEDQUEUE_CCACHE})
endif()

# One target carries the flags, so that nothing is global and the plugin can choose its own.
add_library(fedqueue_flags INTERFACE)
target_compile_options(fedqueue_flags INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>  # false alarms of GCC 12 on std::string
  $<$<BOOL:${FEDQUEUE_WARNINGS_AS_ERRORS}>:-Werror>)
if(FEDQUEUE_SANITIZE)
  target_compile_options(fedqueue_flags INTERFACE
    -fsanitize=${FEDQUEUE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(fedqueue_flags INTERFACE -fsanitize=${FEDQUEUE_SANITIZE})
endif()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(OpenSSL QUIET COMPONENTS SSL Crypto)
if(NOT OpenSSL_FOUND)
  message(FATAL_ERROR "FedQueue needs OpenSSL, which was not found. On Debian or Ubuntu: "
                      "apt-get install libssl-dev")
endif()
find_package(nlohmann_json QUIET)
if(NOT nlohmann_json_FOUND)
  message(FATAL_ERROR "FedQueue needs nlohmann-json, which was not found. On Debian or Ubuntu: "
                      "apt-get install nlohmann-json3-dev")
endif()
find_package(Boost QUIET COMPONENTS program_options)
if(NOT Boost_FOUND)
  message(FATAL_ERROR "FedQueue needs Boost with Program_options, which was not found. On Debian or "
                      "Ubuntu: apt-get install libboost-dev libboost-program-options-dev")
endif()
find_path(FEDQUEUE_XXHASH_INCLUDE xxhash.h)
find_library(FEDQUEUE_XXHASH_LIBRARY xxhash)
if(NOT FEDQUEUE_XXHASH_INCLUDE OR NOT FEDQUEUE_XXHASH_LIBRARY)
  message(FATAL_ERROR "FedQueue needs xxHash, which was not found. On Debian or Ubuntu: "
                      "apt-get install libxxhash-dev")
endif()
if(FEDQUEUE_BUILD_SERVER)
  find_package(SQLite3 QUIET)
  if(NOT SQLite3_FOUND)
    message(FATAL_ERROR "fedserver needs SQLite 3, which was not found. On Debian or Ubuntu: "
                        "apt-get install libsqlite3-dev (or -DFEDQUEUE_BUILD_SERVER=OFF)")
  endif()
endif()
if(FEDQUEUE_BUILD_CLIENT OR FEDQUEUE_BUILD_SERVER)
  find_package(CURL QUIET)
  if(NOT CURL_FOUND)
    message(FATAL_ERROR "FedQueue needs libcurl, which was not found. On Debian or Ubuntu: "
                        "apt-get install libcurl4-openssl-dev")
  endif()
endif()
if(FEDQUEUE_BUILD_TESTS)
  find_package(GTest QUIET)
  if(NOT GTest_FOUND)
    message(FATAL_ERROR "The tests need GoogleTest, which was not found. On Debian or Ubuntu: "
                        "apt-get install libgtest-dev libgmock-dev (or -DFEDQUEUE_BUILD_TESTS=OFF)")
  endif()
endif()
