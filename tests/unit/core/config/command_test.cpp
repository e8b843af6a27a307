// What a person sees who types a command, right or wrong.
#include "core/config/command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tests/unit/core/config/scratch.h"

namespace fedqueue {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class CommandTest : public ::testing::Test {
 protected:
  CommandTest() {
    Command list;
    list.verb = "cert list";
    list.summary = "List the certificates.";
    list.examples = {"fedserver cert list --format json"};
    list.reads = true;
    list.run = [this](const Settings& settings) -> Result<int> {
      format = settings.text("format");
      return 0;
    };
    Command start;
    start.verb = "run";
    start.summary = "Serve a run.";
    start.arguments = {{.name = "DIR", .help = "The run directory."}};
    start.options = {{.name = "t_sync",
                      .kind = Kind::seconds,
                      .built_in = "600",
                      .help = "How long a round lasts."}};
    start.run = [this](const Settings& settings) -> Result<int> {
      directory = settings.argument(0);
      t_sync = settings.real("t_sync");
      if (directory == "busy") {
        return Error{Code::already_running, "another server runs here", "Stop it first."};
      }
      if (directory == "throw") throw std::runtime_error("surprise");
      return 0;
    };
    program = {"fedserver", "the aggregation server", "1.2.3", {list, start}, {"partition"}};
    invocation.site_file = "";
  }
  int run(std::vector<std::string> arguments) {
    out.str("");
    err.str("");
    invocation.arguments = std::move(arguments);
    return run_program(program, invocation, out, err);
  }

  Scratch scratch;
  Program program;
  Invocation invocation;
  std::ostringstream out, err;
  std::string format, directory;
  double t_sync = 0;
};

TEST_F(CommandTest, AVerbGetsItsSettings) {
  EXPECT_EQ(run({"run", "here", "--t-sync", "15m"}), 0);
  EXPECT_EQ(directory, "here");
  EXPECT_EQ(t_sync, 900);
  EXPECT_EQ(run({"cert", "list", "--format", "json"}), 0);
  EXPECT_EQ(format, "json");
  EXPECT_THAT(err.str(), IsEmpty());
}

TEST_F(CommandTest, ErrorsGoToStandardErrorWithTheirCureAndCode) {
  EXPECT_EQ(run({"run", "busy"}), 64);
  EXPECT_EQ(err.str(), "fedserver run: another server runs here\n  Stop it first.\n");
  EXPECT_THAT(out.str(), IsEmpty());
}

TEST_F(CommandTest, AnExceptionIsADefectAndNotACrash) {
  EXPECT_EQ(run({"run", "throw"}), 9);
  EXPECT_THAT(err.str(), HasSubstr("surprise"));
}

TEST_F(CommandTest, MistypedVerbsAndOptionsNameTheNearest) {
  EXPECT_EQ(run({"runn"}), 2);
  EXPECT_THAT(err.str(), HasSubstr("unknown verb 'runn'; did you mean 'run'?"));
  EXPECT_EQ(run({"cert", "lst"}), 2);
  EXPECT_THAT(err.str(), HasSubstr("unknown verb 'cert lst'; did you mean 'cert list'?"));
  EXPECT_EQ(run({"run", "here", "--tsync", "5"}), 2);
  EXPECT_THAT(err.str(), HasSubstr("did you mean '--t_sync'?"));
  EXPECT_THAT(err.str(), HasSubstr("'fedserver run --help'"));
  EXPECT_EQ(run({"--frobnicate"}), 2);
  EXPECT_THAT(err.str(), HasSubstr("unknown option '--frobnicate'"));
}

TEST_F(CommandTest, ArgumentsAreCounted) {
  EXPECT_EQ(run({"run"}), 2);
  EXPECT_THAT(err.str(), HasSubstr("DIR is missing"));
  EXPECT_EQ(run({"run", "a", "b"}), 2);
  EXPECT_THAT(err.str(), HasSubstr("unexpected argument 'b'"));
}

TEST_F(CommandTest, HelpIsOnStandardOutputWithExamplesAndDefaults) {
  EXPECT_EQ(run({"--help"}), 0);
  EXPECT_THAT(out.str(), HasSubstr("Serve a run."));
  EXPECT_EQ(run({"run", "--help"}), 0);
  EXPECT_THAT(out.str(), HasSubstr("Usage: fedserver run DIR [OPTION…]"));
  EXPECT_THAT(out.str(), HasSubstr("--t_sync TIME"));
  EXPECT_THAT(out.str(), HasSubstr("[600]"));
  EXPECT_EQ(run({"cert", "list", "-h"}), 0);
  EXPECT_THAT(out.str(), HasSubstr("fedserver cert list --format json"));
  EXPECT_THAT(out.str(), HasSubstr("--format text|json"));
  EXPECT_EQ(run({"help", "run"}), 0);
  EXPECT_THAT(out.str(), HasSubstr("DIR"));
  EXPECT_EQ(run({"cert", "--help"}), 0);
  EXPECT_THAT(out.str(), HasSubstr("cert list"));
  EXPECT_THAT(out.str(), Not(HasSubstr("Serve a run.")));
  EXPECT_EQ(run({"--version"}), 0);
  EXPECT_EQ(out.str(), "fedserver 1.2.3\n");
}

TEST_F(CommandTest, NoVerbPrintsTheHelpAsAnError) {
  EXPECT_EQ(run({}), 2);
  EXPECT_THAT(out.str(), IsEmpty());
  EXPECT_THAT(err.str(), HasSubstr("Usage: fedserver VERB"));
}

TEST_F(CommandTest, OneFileServesAllVerbsAndPrograms) {
  const auto file = scratch.file("run.ini", "t_sync = 5\npartition = debug\n");
  EXPECT_EQ(run({"cert", "list", "--config", file.string()}), 0) << err.str();
  EXPECT_EQ(run({"run", "x", "--config", file.string()}), 0) << err.str();
  EXPECT_EQ(t_sync, 5);
}

TEST_F(CommandTest, AVerbMayFindItsFileFromItsArguments) {
  scratch.file("config.ini", "t_sync = 7\n");
  program.commands[1].user_file = [](const std::vector<std::string>& arguments) {
    return std::filesystem::path(arguments.empty() ? "." : arguments[0]) / "config.ini";
  };
  EXPECT_EQ(run({"run", (scratch / "").string()}), 0);
  EXPECT_EQ(t_sync, 7);
}

TEST_F(CommandTest, NotesArePrintedBeforeTheVerbRuns) {
  invocation.environment["FEDQUEUE_TSYNC"] = "5";
  EXPECT_EQ(run({"run", "x"}), 0);
  EXPECT_THAT(err.str(), HasSubstr("fedserver run: note: the variable FEDQUEUE_TSYNC"));
}

}  // namespace
}  // namespace fedqueue
