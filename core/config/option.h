// One setting of a program, declared once: its name in files, in the environment and on the command
// line, its kind, its default, what it may be, and what it is for.
//
// Names are lower-case words with `_`, grouped by dots: "t_sync", "tls.listen". One part may be `*`
// and stands for a word of the user's choosing: "facility.*.samples" is `[facility.site-a]
// samples = 600` in a file, with a name as in core/base/ids.h; at the end it stands for a key, as
// "training.*" for training.batch_size. Where a person types a name, `-` and `_` are the same.
//
//   file            [tls]  listen = …        (a section is a prefix; `tls.listen = …` is the same)
//   environment     FEDQUEUE_TLS__LISTEN     (upper case, a dot is two underscores)
//   command line    --tls.listen …           or --set tls.listen=…
#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace fedqueue {

enum class Kind {
  text,
  integer,  // 64 bits, signed
  real,
  flag,     // true|false, yes|no, on|off, 1|0; on the command line --name alone means true
  path,     // relative paths in a file are relative to that file's folder; ~/ is the home folder
  seconds,  // a duration: 90, 90s, 15m, 2h, 1d, 250ms
};

struct OptionSpec {
  std::string name = {};
  Kind kind = Kind::text;
  std::string built_in = {};  // as a user would write it; empty means unset
  std::string help = {};      // one sentence
  // For numbers and durations, both inclusive.
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  std::vector<std::string> choices = {};  // for text: nothing else is allowed
  char short_form = 0;                    // 'o' for -o
  std::string value_name = {};            // shown in the help; made from the kind if empty
  bool repeated = false;      // may be given several times and as a comma-separated list
  bool in_files = true;       // false: on the command line alone, as --dry-run
  bool shown_in_help = true;  // false: accepted everywhere, listed by `config print` alone
};

// Options of several parts of a program, one after the other.
[[nodiscard]] std::vector<OptionSpec> all_of(std::initializer_list<std::vector<OptionSpec>> parts);

[[nodiscard]] std::vector<std::string> option_names(const std::vector<OptionSpec>& options);

// The name of an option in the environment; `*` stays as it is.
[[nodiscard]] std::string environment_name(std::string_view option_name);

// "a number from 0 to 1", "one of fedavg, fedqueue": what an error says was expected.
[[nodiscard]] std::string allowed_values(const OptionSpec& option);

// One value as text, checked and brought into its one form (flags as true|false, durations as
// seconds); the error says what, the value and what is allowed, and not where it was read.
[[nodiscard]] Result<std::string> checked_value(const OptionSpec& option, std::string_view value);

// True if the name is the option's own, or fits its `*`.
[[nodiscard]] bool names_option(std::string_view name, const std::string& option_name);

}  // namespace fedqueue
