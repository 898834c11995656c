package anabranch;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.List;
import java.util.Map;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DataFiles;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
import org.apache.iceberg.Transaction;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableCommit;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.BaseTransaction;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.rest.RESTCatalog;
import org.apache.iceberg.types.Types;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Many tables in one commit, and one cut for all that a client reads. */
class TransactionTest {
  private static final Schema SCHEMA =
      new Schema(Types.NestedField.required(1, "id", Types.LongType.get()));
  private static final TableIdentifier ONE = TableIdentifier.of("shop", "one");
  private static final TableIdentifier TWO = TableIdentifier.of("shop", "two");
  private RESTCatalog catalog;

  @BeforeEach
  void connect() {
    catalog = Server.connect("served", "latest", Map.of());
    Server.empty(catalog);
    catalog.createNamespace(Namespace.of("shop"));
    catalog.createTable(ONE, SCHEMA);
    catalog.createTable(TWO, SCHEMA);
  }

  @AfterEach
  void disconnect() throws Exception {
    Server.empty(catalog);
    catalog.close();
  }

  @Test
  void bothTablesChangeTogether() {
    catalog.commitTransaction(List.of(append(ONE), append(TWO)));
    assertThat(snapshots(catalog, ONE)).isEqualTo(1);
    assertThat(snapshots(catalog, TWO)).isEqualTo(1);
  }

  @Test
  void neitherChangesWhenOneWasChangedMeanwhile() {
    List<TableCommit> commits = List.of(append(ONE), append(TWO));
    catalog.loadTable(TWO).newAppend().appendFile(file("other")).commit();
    assertThatThrownBy(() -> catalog.commitTransaction(commits))
        .isInstanceOf(CommitFailedException.class)
        .hasMessageContaining("Requirement failed");
    assertThat(snapshots(catalog, ONE)).isEqualTo(0);
    assertThat(snapshots(catalog, TWO)).isEqualTo(1);
  }

  @Test
  void aPinnedClientSeesOneCut() throws Exception {
    try (RESTCatalog pinned = Server.connect("pinned", "pinned", Map.of())) {
      catalog.commitTransaction(List.of(append(ONE), append(TWO)));
      assertThat(snapshots(pinned, ONE)).isEqualTo(0);
      assertThat(snapshots(pinned, TWO)).isEqualTo(0);
      assertThatThrownBy(() -> pinned.createNamespace(Namespace.of("other")))
          .isInstanceOf(UnsupportedOperationException.class);
    }
  }

  private TableCommit append(TableIdentifier identifier) {
    Table table = catalog.loadTable(identifier);
    Transaction transaction = table.newTransaction();
    transaction.newAppend().appendFile(file(identifier.name())).commit();
    BaseTransaction made = (BaseTransaction) transaction;
    return TableCommit.create(identifier, made.startMetadata(), made.currentMetadata());
  }

  private static DataFile file(String name) {
    return DataFiles.builder(PartitionSpec.unpartitioned())
        .withPath(System.getenv("ANABRANCH_SERVED_WAREHOUSE") + "/" + name + ".parquet")
        .withFileSizeInBytes(10)
        .withRecordCount(1)
        .build();
  }

  private static int snapshots(RESTCatalog from, TableIdentifier identifier) {
    return (int) java.util.stream.StreamSupport.stream(
            from.loadTable(identifier).snapshots().spliterator(), false)
        .count();
  }
}
