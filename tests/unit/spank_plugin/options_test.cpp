#include "spank_plugin/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace fedqueue::plugin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Options with_run() {
  Options options;
  options.set(OptionId::run, "demo");
  return options;
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "plugin-XXXXXX").string();
    path_ = std::filesystem::canonical(mkdtemp(pattern.data()));
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

TEST(PluginOptions, AcceptsNamesOfAllowedCharactersUpTo63) {
  for (const char* name : {"a", "site-1", "0", "-", "a-b-c"}) {
    EXPECT_EQ(check_text(OptionId::run, name), std::nullopt) << name;
    EXPECT_EQ(check_text(OptionId::facility, name), std::nullopt) << name;
  }
  EXPECT_EQ(check_text(OptionId::run, std::string(63, 'x')), std::nullopt);
}

TEST(PluginOptions, RefusesOtherNamesAndSaysWhatIsAllowed) {
  for (const std::string& name :
       {std::string("Demo"), std::string("a b"), std::string("a/b"), std::string("ä"),
        std::string("a_b"), std::string("a\n"), std::string(64, 'x'), std::string("a;reboot")}) {
    const Problem problem = check_text(OptionId::run, name);
    ASSERT_TRUE(problem) << name;
    EXPECT_THAT(*problem, AllOf(HasSubstr("--fed-run"), HasSubstr("a-z"), Not(HasSubstr("\n"))));
  }
}

TEST(PluginOptions, AcceptsServersWithAndWithoutPort) {
  for (const char* server :
       {"https://fed.example.org", "https://fed.example.org:8443", "https://10.0.0.1:1",
        "https://[::1]:65535", "https://[fe80::1]", "https://localhost"}) {
    EXPECT_EQ(check_text(OptionId::server, server), std::nullopt) << server;
  }
}

TEST(PluginOptions, RefusesOtherServersAndShowsTheForm) {
  for (const char* server :
       {"http://host", "host:8443", "https://", "https://host:", "https://host:0",
        "https://host:65536", "https://host:8443/path", "https://user@host", "https://host:84a",
        "https://ho st", "https://-host", "https://[]:1", "https://[::1", "https://a:1:2",
        "HTTPS://host", "https://host\nX: y", "https://host:99999999999999999999"}) {
    const Problem problem = check_text(OptionId::server, server);
    ASSERT_TRUE(problem) << server;
    EXPECT_THAT(*problem, HasSubstr("https://host:port"));
  }
}

TEST(PluginOptions, RefusesPathsThatAnEnvironmentCannotCarrySafely) {
  EXPECT_EQ(check_text(OptionId::kit, "/home/me/my kit"), std::nullopt);
  EXPECT_TRUE(check_text(OptionId::kit, "/home\nme"));
  EXPECT_TRUE(check_text(OptionId::config, "/" + std::string(4095, 'x')));
  EXPECT_TRUE(check_text(OptionId::config, ""));
}

TEST(PluginOptions, RefusesAnOptionWithoutARun) {
  for (const OptionText& text : option_texts) {
    if (text.id == OptionId::run) continue;
    Options options;
    options.set(text.id, "https://x");
    const Problem problem = check_texts(options);
    ASSERT_TRUE(problem);
    EXPECT_THAT(*problem, AllOf(HasSubstr(text.name), HasSubstr("add --fed-run=NAME")));
  }
  EXPECT_EQ(check_texts(Options()), std::nullopt);
  EXPECT_EQ(check_texts(with_run()), std::nullopt);
}

TEST(PluginOptions, MakesPathsAbsoluteAndExpandsHome) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / "kit");
  std::ofstream(folder.path() / "train.ini") << "[client]\n";
  ASSERT_EQ(setenv("HOME", folder.path().c_str(), 1), 0);

  Options options = with_run();
  options.set(OptionId::kit, "~/kit");
  options.set(OptionId::config, (folder.path() / "kit/../train.ini").string());
  ASSERT_EQ(resolve_paths(options), std::nullopt);
  EXPECT_EQ(options.at(OptionId::kit), (folder.path() / "kit").string());
  EXPECT_EQ(options.at(OptionId::config), (folder.path() / "train.ini").string());
}

TEST(PluginOptions, RefusesPathsThatAreMissingOrOfTheWrongKindOrUnreadable) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "file") << "x";
  Options missing = with_run();
  missing.set(OptionId::kit, (folder.path() / "nowhere").string());
  EXPECT_THAT(resolve_paths(missing).value_or(""), HasSubstr("No such file"));

  Options file_as_kit = with_run();
  file_as_kit.set(OptionId::kit, (folder.path() / "file").string());
  EXPECT_THAT(resolve_paths(file_as_kit).value_or(""), HasSubstr("is not a directory"));

  Options folder_as_config = with_run();
  folder_as_config.set(OptionId::config, folder.path().string());
  EXPECT_THAT(resolve_paths(folder_as_config).value_or(""), HasSubstr("is not a file"));

  if (geteuid() != 0) {  // root may read everything
    ASSERT_EQ(chmod((folder.path() / "file").c_str(), 0), 0);
    Options unreadable = with_run();
    unreadable.set(OptionId::config, (folder.path() / "file").string());
    EXPECT_THAT(resolve_paths(unreadable).value_or(""), HasSubstr("Permission denied"));
  }
}

TEST(PluginOptions, ReadsTheAdministratorsArguments) {
  const char* arguments[] = {"record=no", "facility=site-a", "server=https://fed:1",
                             "min_poll_s=30"};
  const SiteSettings settings = parse_site_settings(4, arguments);
  EXPECT_FALSE(settings.record);
  EXPECT_EQ(settings.facility, "site-a");
  EXPECT_EQ(settings.server, "https://fed:1");
  EXPECT_EQ(settings.min_poll_s, "30");
  EXPECT_TRUE(settings.complaints.empty());
}

TEST(PluginOptions, IgnoresArgumentsItDoesNotUnderstandAndSaysSo) {
  const char* arguments[] = {"record=maybe",
                             "facility=Site",
                             "server=ftp://x",
                             "min_poll_s=-1",
                             "colour=red",
                             "record",
                             nullptr,
                             "",
                             "facility=ok",
                             "min_poll_s=1e3",
                             "=",
                             "min_poll_s="};
  const SiteSettings settings = parse_site_settings(12, arguments);
  EXPECT_TRUE(settings.record);
  EXPECT_EQ(settings.facility, "ok");
  EXPECT_EQ(settings.server, "");
  EXPECT_EQ(settings.min_poll_s, "");
  EXPECT_EQ(settings.complaints.size(), 10U);
  EXPECT_THAT(settings.complaints.at(4), HasSubstr("colour=red"));
  EXPECT_TRUE(parse_site_settings(3, nullptr).complaints.empty());
}

TEST(PluginOptions, ShowsNoControlCharactersAndNoEndlessValues) {
  EXPECT_EQ(printable("a\x1b[31m\nb"), "a?[31m?b");
  EXPECT_EQ(printable(std::string(500, 'x')).size(), 83U);
}

TEST(PluginOptions, HasNamesThatSlurmAccepts) {
  for (const OptionText& text : option_texts) {
    EXPECT_EQ(std::string(text.name).rfind("fed-", 0), 0U);
    EXPECT_LE(std::string(text.name).size(), 75U);
    EXPECT_THAT(text.help, HasSubstr("[fedqueue]"));
    EXPECT_EQ(&text_of(text.id), &text);
  }
}

}  // namespace
}  // namespace fedqueue::plugin
