// A facility's way to a kit whose key never travels, as it is typed.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "core/kit/request.h"
#include "core/kit/verbs.h"
#include "tests/unit/fedserver/certificates/certificates_fixture.h"

namespace fedqueue {
namespace {

using ::testing::HasSubstr;

class KitVerbsTest : public CertificatesTest {
 protected:
  int typed(std::vector<std::string> arguments) {
    const Program program{"fedclient", "the client", "1", kit_commands("fedclient"), {}};
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
  std::string out;
  std::ostringstream err;
};

TEST_F(KitVerbsTest, AFacilityMakesARequestAndChecksItsKit) {
  const std::string home = (scratch / "home").string();
  ASSERT_EQ(typed({"kit", "request", "site-a", "-o", home}), 0) << err.str();
  EXPECT_THAT(out, HasSubstr("fedserver cert facility DIR site-a"));
  EXPECT_EQ(typed({"kit", "check", home}), 27);
  EXPECT_THAT(err.str(), HasSubstr("fedclient kit check: the kit '" + home + "' has no ca.crt"));
  ClientCertificateOrder order;
  order.identity = {IdentityKind::facility, "site-a"};
  order.samples = 5;
  order.output = home;
  order.request_file = home + "/client.csr";
  ASSERT_TRUE(issue_client_certificate(run, order).has_value());
  ASSERT_EQ(typed({"kit", "check", home, "--format", "json"}), 0) << err.str();
  const auto json = nlohmann::json::parse(out);
  EXPECT_EQ(json["name"], "site-a");
  EXPECT_EQ(json["server"], "https://fl.example.org:8443");
  ASSERT_EQ(typed({"kit", "check", home}), 0);
  EXPECT_THAT(out, HasSubstr("kit of the facility 'site-a', valid until"));
}

TEST_F(KitVerbsTest, ANameThatIsNoneMakesNoKey) {
  EXPECT_EQ(typed({"kit", "request", "Site A", "-o", (scratch / "home").string()}), 2);
  EXPECT_FALSE(std::filesystem::exists(scratch / "home"));
}

}  // namespace
}  // namespace fedqueue
