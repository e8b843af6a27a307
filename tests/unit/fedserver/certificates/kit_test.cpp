// What the holder of a kit is told when something is wrong with it.
#include "core/kit/kit.h"

#include <gmock/gmock.h>

#include "core/kit/pem.h"
#include "tests/unit/fedserver/certificates/certificates_fixture.h"

namespace fedqueue {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class KitTest : public CertificatesTest {
 protected:
  void SetUp() override {
    CertificatesTest::SetUp();
    kit = kit_for(IdentityKind::facility, "site-a");
  }
  Error fault(const KitDemand& demand = {}) { return failure_of(load_kit(kit, demand)); }
  // The kit of the same name from another run's authority.
  std::filesystem::path foreign_kit() {
    CertificateRun other = run;
    other.files.run_directory = scratch / "other";
    EXPECT_TRUE(create_certificates(other, {{"fl.example.org"}, {}}).has_value());
    EXPECT_TRUE(issue_client_certificate(
                    other, {.identity = {IdentityKind::facility, "site-a"}, .samples = 1})
                    .has_value());
    return other.files.kit({IdentityKind::facility, "site-a"});
  }
  void replace(const std::string& file, const std::filesystem::path& from) {
    std::filesystem::copy_file(from / file, kit / file,
                               std::filesystem::copy_options::overwrite_existing);
  }
  std::filesystem::path kit;
};

TEST_F(KitTest, AGoodKitTellsWhoAndWhere) {
  const Result<Kit> loaded = load_kit(kit, {.kind = IdentityKind::facility});
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  EXPECT_EQ(loaded->identity, (Identity{IdentityKind::facility, "site-a"}));
  EXPECT_EQ(loaded->server_url, "https://fl.example.org:8443");
  EXPECT_EQ(loaded->run, "mnist");
  EXPECT_THAT(loaded->notes, IsEmpty());
  EXPECT_EQ(standing(loaded->fingerprint).name, "site-a");
  EXPECT_EQ(mode_of(kit), 0700u);
  EXPECT_EQ(mode_of(loaded->key_file), 0600u);
}

TEST_F(KitTest, MissingFilesAreNamed) {
  EXPECT_THAT(failure_of(load_kit(scratch / "none")).message, HasSubstr("there is no kit folder"));
  for (const char* file : {"ca.crt", "client.crt", "client.key"}) {
    const std::filesystem::path aside = scratch / "aside";
    std::filesystem::rename(kit / file, aside);
    EXPECT_EQ(fault().code, Code::kit);
    EXPECT_THAT(fault().message, HasSubstr(std::string("has no ") + file));
    EXPECT_THAT(fault().cure, HasSubstr("fedserver cert renew"));
    std::filesystem::rename(aside, kit / file);
  }
}

TEST_F(KitTest, AKeyThatOthersMayReadIsRefused) {
  for (const unsigned mode : {0640u, 0604u, 0660u}) {
    std::filesystem::permissions(kit / "client.key", std::filesystem::perms(mode));
    EXPECT_EQ(fault().code, Code::kit);
    EXPECT_THAT(fault().cure, HasSubstr("chmod 600"));
  }
  std::filesystem::permissions(kit / "client.key", std::filesystem::perms(0400));
  EXPECT_TRUE(load_kit(kit).has_value());
}

TEST_F(KitTest, FilesOfTwoKitsAreNoticed) {
  const std::filesystem::path other = foreign_kit();
  const std::string own = Scratch::content(kit / "client.key");
  replace("client.key", other);
  EXPECT_EQ(fault().code, Code::kit);
  EXPECT_THAT(fault().message, HasSubstr("is not the key of"));
  replace("client.crt", other);
  EXPECT_EQ(fault().code, Code::tls_untrusted);
  EXPECT_THAT(fault().message, HasSubstr("was not issued by the CA"));
  replace("ca.crt", other);
  EXPECT_TRUE(load_kit(kit).has_value());
}

TEST_F(KitTest, ExpiryIsAnnouncedThenRefused) {
  const CalendarTime end = load_kit(kit)->not_after;
  KitDemand demand{.now = end - std::chrono::days{31}};
  EXPECT_THAT(load_kit(kit, demand)->notes, IsEmpty());
  demand.now = end - std::chrono::days{12};
  ASSERT_EQ(load_kit(kit, demand)->notes.size(), 1u);
  EXPECT_THAT(load_kit(kit, demand)->notes[0], HasSubstr("in 12 days"));
  demand.now = end + std::chrono::seconds(1);
  EXPECT_EQ(fault(demand).code, Code::tls_expired);
  EXPECT_THAT(fault(demand).message, HasSubstr("expired on " + calendar_text(end)));
  EXPECT_THAT(fault(demand).cure, HasSubstr("fedserver cert renew DIR site-a"));
}

TEST_F(KitTest, AWrongClockIsNamedAsAPossibleCause) {
  const Error error = fault({.now = calendar_now() - std::chrono::days{3}});
  EXPECT_EQ(error.code, Code::tls_expired);
  EXPECT_THAT(error.message, HasSubstr("not valid before"));
  EXPECT_THAT(error.cure, HasSubstr("clock"));
}

TEST_F(KitTest, AKitOfAnotherKindIsRefused) {
  EXPECT_EQ(fault({.kind = IdentityKind::administrator}).code, Code::identity);
  EXPECT_THAT(fault({.kind = IdentityKind::administrator}).message,
              HasSubstr("is that of the facility 'site-a'"));
  kit = kit_for(IdentityKind::administrator, "ada");
  EXPECT_TRUE(load_kit(kit, {.kind = IdentityKind::administrator}).has_value());
}

TEST_F(KitTest, AServersCertificateIsNoKit) {
  std::filesystem::copy_file(run.files.server_certificate(), kit / "client.crt",
                             std::filesystem::copy_options::overwrite_existing);
  std::filesystem::copy_file(run.files.server_key(), kit / "client.key",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(fault().code, Code::identity);
}

TEST_F(KitTest, BrokenFilesAreNamed) {
  scratch.file("run/facilities/site-a/client.crt", "not PEM");
  EXPECT_EQ(fault().code, Code::kit);
  EXPECT_THAT(fault().message, HasSubstr("client.crt' does not hold a certificate"));
  scratch.file("run/facilities/site-a/client.key", "not PEM");
  EXPECT_THAT(fault().message, HasSubstr("client.key' does not hold a private key"));
}

TEST_F(KitTest, SettingsMayBeAddedButNotAnotherName) {
  const std::string text = Scratch::content(kit / "facility.ini");
  scratch.file("run/facilities/site-a/facility.ini", text + "partition = gpu\n");
  EXPECT_TRUE(load_kit(kit).has_value());
  scratch.file("run/facilities/site-a/facility.ini", "facility = site-b\n");
  EXPECT_EQ(fault().code, Code::kit);
  EXPECT_THAT(fault().message, HasSubstr("says facility 'site-b', but the certificate is for"));
}

}  // namespace
}  // namespace fedqueue
