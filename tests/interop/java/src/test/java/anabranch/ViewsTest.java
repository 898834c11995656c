package anabranch;

import java.util.Map;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.rest.RESTCatalog;
import org.apache.iceberg.view.ViewCatalogTests;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;

/** Iceberg's tests of views, against a running server. */
class ViewsTest extends ViewCatalogTests<RESTCatalog> {
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
  protected Catalog tableCatalog() {
    return catalog;
  }

  @Override
  protected boolean requiresNamespaceCreate() {
    return true;
  }

  @Override
  protected boolean supportsServerSideRetry() {
    return true;
  }
}
