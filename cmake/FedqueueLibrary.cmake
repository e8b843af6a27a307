# fedqueue_library(NAME SOURCES … HEADERS … DEPENDS … EXTERNAL …)
#
# Every library of the project is made here. `layers.cmake` says for each name which other libraries
# it may use; a name that is not in the table, or a dependency the table does not allow, stops the
# configuration. So "arrows point down" is a rule of the build and not a picture in a document.
include_guard()
include(${CMAKE_CURRENT_LIST_DIR}/layers.cmake)

# The table itself must be acyclic: a library may use only those listed before it.
set(_fedqueue_seen "")
foreach(_name IN LISTS FEDQUEUE_LAYERS)
  foreach(_dependency IN LISTS FEDQUEUE_MAY_USE_${_name})
    if(NOT _dependency IN_LIST _fedqueue_seen)
      message(FATAL_ERROR "cmake/layers.cmake: '${_name}' may use '${_dependency}', which is not "
                          "listed before it; the layers must not form a cycle")
    endif()
  endforeach()
  list(APPEND _fedqueue_seen ${_name})
endforeach()

function(fedqueue_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;HEADERS;DEPENDS;EXTERNAL" ${ARGN})
  if(ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "fedqueue_library(${name}): unknown arguments ${ARG_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT name IN_LIST FEDQUEUE_LAYERS)
    message(FATAL_ERROR "fedqueue_library(${name}): add '${name}' to cmake/layers.cmake first")
  endif()
  foreach(dependency IN LISTS ARG_DEPENDS)
    if(NOT dependency IN_LIST FEDQUEUE_MAY_USE_${name})
      message(FATAL_ERROR "'${name}' may not use '${dependency}' (cmake/layers.cmake allows: "
                          "${FEDQUEUE_MAY_USE_${name}})")
    endif()
  endforeach()

  set(target fedqueue_${name})
  add_library(${target} STATIC ${ARG_SOURCES} ${ARG_HEADERS})
  add_library(fedqueue::${name} ALIAS ${target})
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(${target} PUBLIC fedqueue_flags ${ARG_EXTERNAL})
  foreach(dependency IN LISTS ARG_DEPENDS)
    target_link_libraries(${target} PUBLIC fedqueue_${dependency})
  endforeach()
  set_property(GLOBAL APPEND PROPERTY FEDQUEUE_LIBRARIES ${name})
endfunction()

# A link added behind fedqueue_library()'s back is found here, at the end of the configuration.
function(fedqueue_check_layers)
  get_property(names GLOBAL PROPERTY FEDQUEUE_LIBRARIES)
  foreach(name IN LISTS names)
    get_target_property(linked fedqueue_${name} LINK_LIBRARIES)
    foreach(library IN LISTS linked)
      if(library MATCHES "^fedqueue(_|::)(.+)$" AND NOT CMAKE_MATCH_2 STREQUAL "flags")
        if(NOT CMAKE_MATCH_2 IN_LIST FEDQUEUE_MAY_USE_${name})
          message(FATAL_ERROR "'${name}' may not use '${CMAKE_MATCH_2}' (cmake/layers.cmake)")
        endif()
      endif()
    endforeach()
  endforeach()
endfunction()

# fedqueue_test(NAME LABEL … SOURCES … LINK … [TIMEOUT s]): a GoogleTest program, one CTest entry.
function(fedqueue_test name)
  cmake_parse_arguments(ARG "" "LABEL;TIMEOUT" "SOURCES;LINK;ARGUMENTS" ${ARGN})
  if(NOT FEDQUEUE_BUILD_TESTS)
    return()
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  set(target test_${name})
  add_executable(${target} ${ARG_SOURCES})
  target_link_libraries(${target} PRIVATE ${ARG_LINK} GTest::gmock GTest::gtest_main)
  add_test(NAME ${ARG_LABEL}.${name} COMMAND ${target} ${ARG_ARGUMENTS})
  set_tests_properties(${ARG_LABEL}.${name} PROPERTIES
    LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT} SKIP_RETURN_CODE 77)
endfunction()

# fedqueue_require(PACKAGE target-or-variable debian-package component)
macro(fedqueue_missing what package component)
  message(FATAL_ERROR "${component} needs ${what}, which was not found. On Debian or Ubuntu: "
                      "apt-get install ${package}")
endmacro()
