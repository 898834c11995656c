package anabranch;

import java.util.Map;
import org.apache.iceberg.catalog.CatalogTests;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.rest.RESTCatalog;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;

/** Iceberg's tests of catalogs, against a running server. */
class TablesTest extends CatalogTests<RESTCatalog> {
  private RESTCatalog catalog;

  @BeforeEach
  void connect() {
    catalog = Server.connect("served", "latest", Map.of());
    Server.empty(catalog);
  }

  @AfterEach
  void disconnect() throws Exception {
    Server.empty(catalog);
    catalog.close();
  }

  @Override
  protected RESTCatalog catalog() {
    return catalog;
  }

  @Override
  protected RESTCatalog initCatalog(String name, Map<String, String> properties) {
    return Server.connect(name, "latest", properties);
  }

  @Override
  protected String baseTableLocation(TableIdentifier identifier) {
    return Server.location(identifier);
  }

  @Override
  protected boolean requiresNamespaceCreate() {
    return true;
  }

  @Override
  protected boolean supportsServerSideRetry() {
    return true;
  }

  @Override
  protected boolean supportsNestedNamespaces() {
    return true;
  }

  @Override
  protected boolean supportsNamesWithDot() {
    return false; // of namespaces: JdbcCatalog and we keep their levels with dots between them
  }
}
