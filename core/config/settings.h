// The effective settings of a program, each with where it came from.
//
//   built-in < site file < user file < FEDQUEUE_… < command line
//
// The site file belongs to the administrator. It gives defaults, and with `min.NAME` and `max.NAME`
// limits that no later layer can leave: the value is brought to the limit, and a note says so.
//
// Promises: an unknown name is an error with its place and the nearest name; a bad value is an
// error with its place and what is allowed; nothing is read from the process itself (files aside),
// so that tests pass their own environment. Names that belong to another program of the family are
// accepted and ignored, since the programs share files and environment.
//
// Thread safety: Settings is immutable after loading.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/config/option.h"

namespace fedqueue {

struct Sources {
  std::vector<std::string> arguments = {};  // after the program's name and verb
  std::map<std::string, std::string> environment = {};
  // Read if it exists; FEDQUEUE_SITE_CONFIG names another, which must exist (empty: none).
  std::filesystem::path site_file = "/etc/fedqueue/site.ini";
  // Read if it exists; --config or FEDQUEUE_CONFIG names another, which must exist.
  std::filesystem::path user_file = {};
  // Options of other programs of the family, patterns with `*` included.
  std::vector<std::string> foreign_names = {};
};

// The process's own environment, FEDQUEUE_* and HOME.
[[nodiscard]] std::map<std::string, std::string> process_environment();

class Settings {
 public:
  // Each getter REQUIRES a declared option of a fitting kind; anything else is a defect of the
  // program. The numbers also REQUIRE a value: ask has() first where there is no default.
  [[nodiscard]] const std::string& text(std::string_view name) const;  // text, path
  // Any kind, as it would stand in a file; the values of a repeated option joined by commas. Empty
  // if unset.
  [[nodiscard]] std::string text_of(std::string_view name) const;
  [[nodiscard]] std::filesystem::path path(std::string_view name) const;
  [[nodiscard]] std::int64_t integer(std::string_view name) const;
  [[nodiscard]] double real(std::string_view name) const;  // integer, real, seconds
  [[nodiscard]] Duration duration(std::string_view name) const;
  [[nodiscard]] bool flag(std::string_view name) const;                      // false if unset
  [[nodiscard]] std::vector<std::string> list(std::string_view name) const;  // of a repeated option

  // True if there is a value, a default included. False for an unknown name.
  [[nodiscard]] bool has(std::string_view name) const;
  // True if the user or the site said it, whatever the value.
  [[nodiscard]] bool given(std::string_view name) const;
  // "built-in", "run.ini line 3", "FEDQUEUE_T_SYNC", "the command line"; empty if unset.
  [[nodiscard]] std::string origin(std::string_view name) const;
  // The user's names right below a prefix: names_under("facility") → {"site-a", "site-b"}.
  [[nodiscard]] std::vector<std::string> names_under(std::string_view prefix) const;

  // What the verb was given besides options.
  [[nodiscard]] const std::vector<std::string>& arguments() const { return arguments_; }
  // The argument at a position, or empty.
  [[nodiscard]] std::string argument(std::size_t index) const;

  // The user file that was read; empty if none was.
  [[nodiscard]] const std::filesystem::path& user_file() const { return user_file_; }

  // Effective values with their origins. The text is a valid file for --config.
  [[nodiscard]] std::string print_text() const;
  [[nodiscard]] std::string print_json() const;

  // Sentences the user should see: values brought to a limit, doubtful variables.
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }

 private:
  friend class SettingsLoader;
  struct Entry {
    OptionSpec option;
    std::vector<std::string> values;
    std::string origin;
    bool given = false;
  };
  [[nodiscard]] const Entry* find(std::string_view name) const;
  [[nodiscard]] const Entry& declared(std::string_view name) const;
  [[nodiscard]] const std::string& single(std::string_view name) const;

  std::map<std::string, Entry, std::less<>> entries_;
  std::vector<std::string> order_;  // names as declared, then the user's own
  std::vector<std::string> arguments_;
  std::vector<std::string> notes_;
  std::filesystem::path user_file_;
};

[[nodiscard]] Result<Settings> load_settings(const std::vector<OptionSpec>& options,
                                             const Sources& sources);

}  // namespace fedqueue
