// What a user relies on when a setting can come from five places.
#include "core/config/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/core/config/scratch.h"

namespace fedqueue {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<OptionSpec> options() {
  return {
      {.name = "t_sync", .kind = Kind::seconds, .built_in = "10m", .help = "Round length."},
      {.name = "local_steps",
       .kind = Kind::integer,
       .built_in = "40",
       .minimum = 1,
       .short_form = 'e'},
      {.name = "alpha", .kind = Kind::real, .built_in = "0.5", .minimum = 0, .maximum = 1},
      {.name = "policy", .built_in = "fedqueue", .choices = {"fedavg", "fedqueue"}},
      {.name = "tls.listen", .built_in = "[::]:8443"},
      {.name = "tls.host", .help = "Names of the server.", .repeated = true},
      {.name = "resume", .kind = Kind::flag},
      {.name = "data", .kind = Kind::path},
      {.name = "dry_run", .kind = Kind::flag, .in_files = false},
      {.name = "facility.*.samples", .kind = Kind::integer, .minimum = 1},
      {.name = "training.*"},
      {.name = "facility.*.share", .kind = Kind::real, .built_in = "0.4"},
  };
}

class SettingsTest : public ::testing::Test {
 protected:
  Result<Settings> load(std::vector<std::string> arguments = {}) {
    sources.arguments = std::move(arguments);
    return load_settings(declared, sources);
  }
  // For cases where loading must succeed.
  Settings loaded(std::vector<std::string> arguments = {}) {
    Result<Settings> settings = load(std::move(arguments));
    EXPECT_TRUE(settings.has_value()) << (settings ? "" : settings.error().message);
    if (!settings) return {};
    return *settings;
  }
  std::string failure(std::vector<std::string> arguments = {}) {
    Result<Settings> settings = load(std::move(arguments));
    EXPECT_FALSE(settings.has_value());
    if (settings) return "";
    EXPECT_EQ(settings.error().code, Code::usage);
    return settings.error().message;
  }
  void user_file(const std::string& text) { sources.user_file = scratch.file("run.ini", text); }
  void site_file(const std::string& text) { sources.site_file = scratch.file("site.ini", text); }

  Scratch scratch;
  std::vector<OptionSpec> declared = options();
  Sources sources = {.site_file = ""};
};

TEST_F(SettingsTest, LaterLayersWinAndTheOriginTellsWhichOneDid) {
  Settings settings = loaded();
  EXPECT_EQ(settings.real("t_sync"), 600);
  EXPECT_EQ(settings.origin("t_sync"), "built-in");
  EXPECT_FALSE(settings.given("t_sync"));

  site_file("t_sync = 20m\n");
  settings = loaded();
  EXPECT_EQ(settings.real("t_sync"), 1200);
  EXPECT_THAT(settings.origin("t_sync"), HasSubstr("site.ini line 1"));
  EXPECT_TRUE(settings.given("t_sync"));

  user_file("# a comment\n\nt_sync = 2h\n");
  settings = loaded();
  EXPECT_EQ(settings.duration("t_sync"), std::chrono::hours(2));
  EXPECT_THAT(settings.origin("t_sync"), HasSubstr("run.ini line 3"));

  sources.environment["FEDQUEUE_T_SYNC"] = "30";
  settings = loaded();
  EXPECT_EQ(settings.real("t_sync"), 30);
  EXPECT_EQ(settings.origin("t_sync"), "FEDQUEUE_T_SYNC");

  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--t_sync", "5"}, {"--t-sync=5"}, {"--set", "t_sync=5"}}) {
    settings = loaded(arguments);
    EXPECT_EQ(settings.real("t_sync"), 5);
    EXPECT_EQ(settings.origin("t_sync"), "the command line");
  }
}

TEST_F(SettingsTest, AnUnknownKeyNamesItsLineAndTheNearestName) {
  user_file("policy = fedavg\n\ntsync = 5\n");
  EXPECT_EQ(failure(), "unknown key 'tsync' in " + sources.user_file.string() +
                           " line 3; did you mean 't_sync'?");
}

TEST_F(SettingsTest, AnUnknownOptionNamesTheNearest) {
  EXPECT_EQ(failure({"--tsync", "5"}), "unknown option '--tsync'; did you mean '--t_sync'?");
  EXPECT_EQ(failure({"--set", "tls.listne=x"}),
            "unknown name 'tls.listne' in the command line; did you mean 'tls.listen'?");
  EXPECT_EQ(failure({"--entirely-different"}), "unknown option '--entirely-different'");
}

TEST_F(SettingsTest, AnUnknownSettingOfAFacilityIsComparedWithoutItsName) {
  user_file("[facility.site-a]\nsample = 600\n");
  EXPECT_THAT(failure(), HasSubstr("did you mean 'facility.site-a.samples'?"));
}

TEST_F(SettingsTest, ABadValueSaysWhereWhatAndWhatIsAllowed) {
  user_file("alpha = 1.5\n");
  EXPECT_EQ(failure(), "alpha (" + sources.user_file.string() +
                           " line 1) is '1.5'; it must be a number from 0 to 1");
  user_file("");
  EXPECT_EQ(failure({"--policy", "fedavgg"}),
            "--policy (the command line) is 'fedavgg'; it must be one of fedavg, fedqueue");
  EXPECT_THAT(failure({"--local_steps", "0"}), HasSubstr("a whole number, at least 1"));
  EXPECT_THAT(failure({"--local_steps", "4.5"}), HasSubstr("a whole number"));
  EXPECT_THAT(failure({"--t_sync", "-1"}), HasSubstr("a duration such as 90s"));
  EXPECT_THAT(failure({"--alpha", "nan"}), HasSubstr("a number from 0 to 1"));
  sources.environment["FEDQUEUE_RESUME"] = "maybe";
  EXPECT_EQ(failure(), "resume (FEDQUEUE_RESUME) is 'maybe'; it must be true or false");
}

TEST_F(SettingsTest, DurationsHaveUnits) {
  EXPECT_EQ(loaded({"--t_sync", "250ms"}).real("t_sync"), 0.25);
  EXPECT_EQ(loaded({"--t_sync", "90s"}).real("t_sync"), 90);
  EXPECT_EQ(loaded({"--t_sync", "1.5h"}).real("t_sync"), 5400);
  EXPECT_EQ(loaded({"--t_sync", "1 d"}).real("t_sync"), 86400);
  EXPECT_THAT(failure({"--t_sync", "5w"}), HasSubstr("'5w'"));
}

TEST_F(SettingsTest, FlagsNeedNoValueAndDoNotSwallowTheNextArgument) {
  const Settings settings = loaded({"--resume", "mnist", "-e", "7"});
  EXPECT_TRUE(settings.flag("resume"));
  EXPECT_THAT(settings.arguments(), ElementsAre("mnist"));
  EXPECT_EQ(settings.integer("local_steps"), 7);
  EXPECT_FALSE(loaded({"--resume=off"}).flag("resume"));
  EXPECT_FALSE(loaded().flag("resume"));
}

TEST_F(SettingsTest, AnOptionWithoutItsValueIsRefused) {
  EXPECT_THAT(failure({"--t_sync"}), HasSubstr("--t_sync"));
  EXPECT_THAT(failure({"--set", "t_sync"}), HasSubstr("--set name=value"));
}

TEST_F(SettingsTest, AfterTwoDashesEverythingIsAnArgument) {
  EXPECT_THAT(loaded({"--", "--t_sync", "x"}).arguments(), ElementsAre("--t_sync", "x"));
}

TEST_F(SettingsTest, RepeatedOptionsGatherWithinALayerAndReplaceLowerOnes) {
  user_file("[tls]\nhost = a.example, b.example\nhost = c.example\n");
  EXPECT_THAT(loaded().list("tls.host"), ElementsAre("a.example", "b.example", "c.example"));
  EXPECT_THAT(loaded({"--tls.host", "x", "--tls.host=y,z"}).list("tls.host"),
              ElementsAre("x", "y", "z"));
}

TEST_F(SettingsTest, TheSameKeyTwiceIsAnErrorThatNamesBothLines) {
  user_file("t_sync = 1\nt-sync = 2\n");
  EXPECT_THAT(failure(), HasSubstr("in line 1 and in line 2"));
}

TEST_F(SettingsTest, FreeNamesCarryTheDefaultsOfAllTheirSettings) {
  user_file("[facility.site-a]\nsamples = 600\n[facility.site-b]\nshare = 0.1\n");
  const Settings settings = loaded({"--set", "facility.site-c.samples=5"});
  EXPECT_THAT(settings.names_under("facility"), ElementsAre("site-a", "site-b", "site-c"));
  EXPECT_EQ(settings.integer("facility.site-a.samples"), 600);
  EXPECT_EQ(settings.real("facility.site-a.share"), 0.4);
  EXPECT_EQ(settings.real("facility.site-b.share"), 0.1);
  EXPECT_FALSE(settings.has("facility.site-b.samples"));
}

TEST_F(SettingsTest, FreeNamesFromTheEnvironmentReadUnderscoresAsDashes) {
  sources.environment["FEDQUEUE_FACILITY__SITE_A__SAMPLES"] = "9";
  sources.environment["FEDQUEUE_TLS__LISTEN"] = "127.0.0.1:1";
  const Settings settings = loaded();
  EXPECT_EQ(settings.integer("facility.site-a.samples"), 9);
  EXPECT_EQ(settings.text("tls.listen"), "127.0.0.1:1");
}

TEST_F(SettingsTest, AFreeKeyMayHaveUnderscores) {
  user_file("[training]\nbatch_size = 64\n");
  sources.environment["FEDQUEUE_TRAINING__SEED_OF_RANK"] = "3";
  const Settings settings = loaded({"--set", "training.weight-decay=0.1"});
  EXPECT_THAT(settings.names_under("training"),
              ElementsAre("batch_size", "seed_of_rank", "weight_decay"));
  EXPECT_EQ(settings.text("training.batch_size"), "64");
  EXPECT_EQ(settings.text_of("training.weight_decay"), "0.1");
}

TEST_F(SettingsTest, FreeNamesAreOptionsToo) {
  const Settings settings = loaded({"--training.batch_size", "64", "x", "--training.epochs=2",
                                    "--facility.site-a.samples", "5"});
  EXPECT_EQ(settings.text("training.batch_size"), "64");
  EXPECT_EQ(settings.text("training.epochs"), "2");
  EXPECT_EQ(settings.integer("facility.site-a.samples"), 5);
  EXPECT_THAT(settings.arguments(), ElementsAre("x"));
  EXPECT_THAT(failure({"--training.batch_size"}), HasSubstr("needs a value"));
}

TEST_F(SettingsTest, AnyKindCanBeReadAsText) {
  const Settings settings = loaded({"--t_sync", "1m", "--tls.host", "a,b"});
  EXPECT_EQ(settings.text_of("t_sync"), "60");
  EXPECT_EQ(settings.text_of("tls.host"), "a,b");
  EXPECT_EQ(settings.text_of("resume"), "");
}

TEST_F(SettingsTest, AFreeNameMustBeAName) {
  user_file("[facility.Site A]\nsamples = 600\n");
  EXPECT_THAT(failure(), HasSubstr("unknown key 'facility.Site A.samples'"));
}

TEST_F(SettingsTest, LimitsOfTheSiteHoldAgainstEveryLayerAndAreReported) {
  site_file("[min]\nt_sync = 60\n[max]\nlocal_steps = 100\nfacility.*.share = 0.3\n");
  user_file("t_sync = 10\n[facility.site-a]\nsamples = 1\n");
  const Settings settings = loaded({"--local_steps", "1000"});
  EXPECT_EQ(settings.real("t_sync"), 60);
  EXPECT_EQ(settings.integer("local_steps"), 100);
  EXPECT_EQ(settings.real("facility.site-a.share"), 0.3);
  ASSERT_EQ(settings.notes().size(), 3u);
  EXPECT_THAT(settings.notes(),
              ::testing::Contains(HasSubstr("local_steps = 1000 (the command line) is above the "
                                            "site's maximum 100")));
  EXPECT_THAT(settings.origin("t_sync"), HasSubstr("site.ini line 2"));
  EXPECT_THAT(loaded({"--t_sync", "90", "--set", "facility.site-a.share=0.2"}).notes(), IsEmpty());
}

TEST_F(SettingsTest, OnlyTheSiteSetsLimitsAndOnlyOnNumbers) {
  user_file("min.t_sync = 60\n");
  EXPECT_THAT(failure(), HasSubstr("only the site file sets limits"));
  user_file("");
  site_file("min.policy = fedavg\n");
  EXPECT_THAT(failure(), HasSubstr("only numbers and durations have limits"));
  site_file("min.t_snc = 1\n");
  EXPECT_THAT(failure(), HasSubstr("did you mean 't_sync'?"));
  site_file("min.t_sync = 60\nmax.t_sync = 30\n");
  EXPECT_THAT(failure(), HasSubstr("is above its maximum"));
}

TEST_F(SettingsTest, NamesOfTheOtherProgramsAreIgnoredEverywhereButOnTheCommandLine) {
  sources.foreign_names = {"partition", "facility.*.weight"};
  sources.environment["FEDQUEUE_PARTITION"] = "debug";
  site_file("partition = debug\nmax.partition = 3\n");
  user_file("[facility.site-a]\nweight = 3\n");
  EXPECT_THAT(loaded().notes(), IsEmpty());
  EXPECT_THAT(failure({"--partition", "debug"}), HasSubstr("unknown option '--partition'"));
}

TEST_F(SettingsTest, AMistypedVariableIsANoteAndAStrangeOneNothing) {
  sources.environment["FEDQUEUE_TSYNC"] = "5";
  sources.environment["FEDQUEUE_SOMETHING_OF_THE_JOB_SCRIPT"] = "5";
  const Settings settings = loaded();
  EXPECT_THAT(settings.notes(), ElementsAre("the variable FEDQUEUE_TSYNC means nothing here; did "
                                            "you mean FEDQUEUE_T_SYNC?"));
  EXPECT_EQ(settings.real("t_sync"), 600);
}

TEST_F(SettingsTest, AnEmptyVariableIsAsGoodAsNone) {
  sources.environment["FEDQUEUE_T_SYNC"] = "";
  EXPECT_EQ(loaded().origin("t_sync"), "built-in");
}

TEST_F(SettingsTest, PathsInAFileAreRelativeToItsFolder) {
  user_file("data = sets/mnist\n");
  EXPECT_EQ(loaded().path("data"), scratch / "sets/mnist");
  EXPECT_EQ(loaded({"--data", "sets/mnist"}).path("data"), "sets/mnist");
  sources.environment["HOME"] = "/home/ada";
  EXPECT_EQ(loaded({"--data", "~/sets"}).path("data"), "/home/ada/sets");
  user_file("data = ~/sets\n");
  EXPECT_EQ(loaded().path("data"), "/home/ada/sets");
}

TEST_F(SettingsTest, FilesThatWereAskedForMustExist) {
  EXPECT_THAT(failure({"--config", "/nowhere/run.ini"}), HasSubstr("named by --config"));
  sources.environment["FEDQUEUE_CONFIG"] = "/nowhere/other.ini";
  EXPECT_THAT(failure(), HasSubstr("named by FEDQUEUE_CONFIG"));
  sources.environment.clear();
  sources.environment["FEDQUEUE_SITE_CONFIG"] = "/nowhere/site.ini";
  EXPECT_THAT(failure(), HasSubstr("named by FEDQUEUE_SITE_CONFIG"));
  sources.environment.clear();
  sources.site_file = "/nowhere/site.ini";
  sources.user_file = "/nowhere/run.ini";
  EXPECT_TRUE(loaded().user_file().empty());
}

TEST_F(SettingsTest, TheConfigOptionReplacesTheDefaultUserFile) {
  user_file("t_sync = 1\n");
  const std::filesystem::path other = scratch.file("other.ini", "local_steps = 3\n");
  const Settings settings = loaded({"--config", other.string()});
  EXPECT_EQ(settings.real("t_sync"), 600);
  EXPECT_EQ(settings.integer("local_steps"), 3);
  EXPECT_EQ(settings.user_file(), other);
}

TEST_F(SettingsTest, OptionsOfTheCommandLineAloneAreRefusedInFiles) {
  user_file("dry_run = true\n");
  EXPECT_THAT(failure(), HasSubstr("on the command line alone"));
  user_file("");
  EXPECT_TRUE(loaded({"--dry-run"}).flag("dry_run"));
}

TEST_F(SettingsTest, ThePrintedTextIsAFileWithTheSameMeaning) {
  const Settings settings =
      loaded({"--t_sync", "90", "--tls.host", "a,b", "--tls.listen", " odd # text ", "--resume",
              "--set", "facility.site-a.samples=5"});
  const std::string text = settings.print_text();
  EXPECT_THAT(text, HasSubstr("# the command line"));
  EXPECT_THAT(text, HasSubstr("# built-in"));
  user_file(text);
  const Settings again = loaded();
  EXPECT_EQ(again.real("t_sync"), 90);
  EXPECT_THAT(again.list("tls.host"), ElementsAre("a", "b"));
  EXPECT_EQ(again.text("tls.listen"), settings.text("tls.listen"));
  EXPECT_TRUE(again.flag("resume"));
  EXPECT_EQ(again.integer("facility.site-a.samples"), 5);
}

TEST_F(SettingsTest, ThePrintedJsonHasTypedValuesAndOrigins) {
  const auto json = nlohmann::json::parse(loaded({"--resume"}).print_json());
  EXPECT_EQ(json["t_sync"]["value"], 600);
  EXPECT_EQ(json["t_sync"]["origin"], "built-in");
  EXPECT_EQ(json["resume"]["value"], true);
  EXPECT_EQ(json["resume"]["origin"], "the command line");
  EXPECT_TRUE(json["data"]["value"].is_null());
  EXPECT_FALSE(json.contains("dry_run"));
}

}  // namespace
}  // namespace fedqueue
