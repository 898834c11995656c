package anabranch;

import java.util.HashMap;
import java.util.Map;
import org.apache.iceberg.CatalogProperties;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.SupportsNamespaces;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.hadoop.HadoopFileIO;
import org.apache.iceberg.rest.RESTCatalog;

/** The server under test: where it is, and how to empty it between two tests. */
final class Server {
  private Server() {}

  static RESTCatalog connect(String name, String warehouse, Map<String, String> more) {
    Map<String, String> properties = new HashMap<>();
    properties.put(CatalogProperties.URI, System.getenv("ANABRANCH_SERVED"));
    properties.put("token", System.getenv("ANABRANCH_SERVED_TOKEN"));
    properties.put(CatalogProperties.WAREHOUSE_LOCATION, warehouse);
    properties.put(CatalogProperties.FILE_IO_IMPL, HadoopFileIO.class.getName());
    // what the tests expect of a catalog that was configured so
    properties.put("table-default.default-key1", "catalog-default-key1");
    properties.put("table-default.default-key2", "catalog-default-key2");
    properties.put("table-default.override-key3", "catalog-default-key3");
    properties.put("table-override.override-key3", "catalog-override-key3");
    properties.put("table-override.override-key4", "catalog-override-key4");
    properties.put("view-default.key1", "catalog-default-key1");
    properties.put("view-default.key2", "catalog-default-key2");
    properties.put("view-default.key3", "catalog-default-key3");
    properties.put("view-override.key3", "catalog-override-key3");
    properties.put("view-override.key4", "catalog-override-key4");
    properties.putAll(more);
    RESTCatalog catalog = new RESTCatalog();
    catalog.setConf(new org.apache.hadoop.conf.Configuration());
    catalog.initialize(name, properties);
    return catalog;
  }

  /** A folder in the warehouse that no other table has. */
  static String location(TableIdentifier identifier) {
    return System.getenv("ANABRANCH_SERVED_WAREHOUSE")
        + "/chosen/"
        + String.join("/", identifier.namespace().levels())
        + "/"
        + identifier.name();
  }

  static void empty(RESTCatalog catalog) {
    for (Namespace namespace : ((SupportsNamespaces) catalog).listNamespaces()) {
      empty(catalog, namespace);
    }
  }

  private static void empty(RESTCatalog catalog, Namespace namespace) {
    for (Namespace below : catalog.listNamespaces(namespace)) {
      empty(catalog, below);
    }
    catalog.listViews(namespace).forEach(catalog::dropView);
    catalog.listTables(namespace).forEach(each -> catalog.dropTable(each, false));
    catalog.dropNamespace(namespace);
  }
}
