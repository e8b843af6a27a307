// `fedserver cert` as it is typed.
#include "fedserver/certificates/verbs.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "core/kit/request.h"
#include "core/kit/verbs.h"
#include "tests/unit/fedserver/certificates/certificates_fixture.h"

namespace fedqueue {
namespace {

using ::testing::HasSubstr;

class CertificateVerbsTest : public CertificatesTest {
 protected:
  void SetUp() override {
    CertificatesTest::SetUp();
    scratch.file("run/config.ini", "run = mnist\nserver = https://fl.example.org:8443\n");
  }
  int typed(std::vector<std::string> arguments) {
    Program program{"fedserver", "the server", "1", certificate_commands(), {}};
    if (arguments[0] == "kit") program.commands = kit_commands("fedclient");
    Invocation invocation;
    invocation.arguments = std::move(arguments);
    invocation.site_file = "";
    std::ostringstream help;
    err.str("");
    ::testing::internal::CaptureStdout();
    const int code = run_program(program, invocation, help, err);
    out = ::testing::internal::GetCapturedStdout() + help.str();
    return code;
  }
  std::string directory() { return run.files.run_directory.string(); }
  std::string out;
  std::ostringstream err;
};

TEST_F(CertificateVerbsTest, AFacilityIsEnrolledListedAndRevoked) {
  ASSERT_EQ(typed({"cert", "facility", "site-a", directory(), "--samples", "60000"}), 0)
      << err.str();
  const Result<Kit> kit = load_kit(run.files.kit({IdentityKind::facility, "site-a"}));
  ASSERT_TRUE(kit.has_value());
  EXPECT_EQ(kit->server_url, "https://fl.example.org:8443");
  EXPECT_EQ(kit->run, "mnist");
  ASSERT_EQ(typed({"cert", "list", directory(), "--format", "json"}), 0) << err.str();
  EXPECT_EQ(nlohmann::json::parse(out)["facilities"][0]["samples"], 60000);
  ASSERT_EQ(typed({"cert", "revoke", kit->fingerprint, directory()}), 0) << err.str();
  EXPECT_TRUE(standing(kit->fingerprint).revoked);
}

TEST_F(CertificateVerbsTest, EveryVerbExplainsItselfWithExamples) {
  for (const Command& command : certificate_commands()) {
    std::vector<std::string> words = {"help", "cert", command.verb.substr(5)};
    EXPECT_EQ(typed(words), 0);
    EXPECT_THAT(out, HasSubstr("Examples:\n  fedserver " + command.verb));
  }
}

TEST_F(CertificateVerbsTest, RequestsAreSignedForTheNameGiven) {
  ASSERT_TRUE(create_request(scratch / "home", "whatever").has_value());
  const std::string file = (scratch / "home/client.csr").string();
  ASSERT_EQ(typed({"cert", "sign", file, "ada", directory(), "--kind", "operator", "-o",
                   (scratch / "home").string()}),
            0)
      << err.str();
  EXPECT_EQ(load_kit(scratch / "home")->identity, (Identity{IdentityKind::administrator, "ada"}));
}

TEST_F(CertificateVerbsTest, AFacilityMakesARequestAndChecksItsKit) {
  const std::string home = (scratch / "home").string();
  ASSERT_EQ(typed({"kit", "request", "site-a", "-o", home}), 0) << err.str();
  EXPECT_THAT(out, HasSubstr("fedserver cert facility site-a"));
  EXPECT_EQ(typed({"kit", "check", home}), 27);
  ASSERT_EQ(typed({"cert", "facility", "site-a", directory(), "--samples", "5", "--csr",
                   home + "/client.csr", "-o", home}),
            0)
      << err.str();
  ASSERT_EQ(typed({"kit", "check", home, "--format", "json"}), 0) << err.str();
  const auto json = nlohmann::json::parse(out);
  EXPECT_EQ(json["name"], "site-a");
  EXPECT_EQ(json["server"], "https://fl.example.org:8443");
}

TEST_F(CertificateVerbsTest, ServerNamesMayBeSeveral) {
  EXPECT_EQ(typed({"cert", "server", directory(), "--host", "a.example", "--host", "b.example",
                   "--ip", "::1"}),
            0)
      << err.str();
  EXPECT_THAT(out, HasSubstr("a.example, b.example, ::1"));
}

TEST_F(CertificateVerbsTest, MistakesHaveTheirCodes) {
  EXPECT_EQ(typed({"cert", "facility", "site-a", directory()}), 2);
  EXPECT_THAT(err.str(), HasSubstr("--samples N"));
  EXPECT_EQ(typed({"cert", "facility", "site-a", directory(), "--samples", "0"}), 2);
  EXPECT_EQ(typed({"cert", "facility", "Site A", directory(), "--samples", "1"}), 2);
  EXPECT_EQ(typed({"cert", "renew", "nobody", directory()}), 55);
  EXPECT_EQ(typed({"cert", "samples", "site-a", "many", directory()}), 2);
}

}  // namespace
}  // namespace fedqueue
