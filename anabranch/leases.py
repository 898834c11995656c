"""Leases held by this process, of tables and of cuts, kept alive while the work goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial

from anabranch.catalog import deployments, leases, read_leases
from anabranch.catalog.heartbeat import Beat
from anabranch.catalog.leases import Lease, Waiting
from anabranch.catalog.read_leases import ReadLease
from anabranch.catalog.stages import StageRow
from anabranch.catalog.store import Connection, Store
from anabranch.errors import AnabranchError, CutExpired
from anabranch.names import TableName

POLL_SECONDS = 0.1


class Leases:
    """Takes leases of tables and of cuts; the heartbeat renews them while they are held."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._ended: set[str] = set()  # given back by the publish that they were taken for

    @contextmanager
    def hold(
        self,
        names: Collection[TableName],
        seconds: float,
        *,
        wait: bool,
        begin: Callable[[Connection], object] | None = None,
    ) -> Iterator[Lease | TableName]:
        """A lease of all the tables; or, without `wait`, perhaps the table somebody else has.

        `begin` is run in the transaction that takes the lease, unless it had to be waited for.
        """
        take = self._wait_for if wait else self._take
        taken = take(names, seconds, begin)
        if isinstance(taken, TableName):
            yield taken
            return
        with self._holding(taken, seconds):
            yield taken

    @contextmanager
    def hold_free(self, names: Collection[TableName], seconds: float) -> Iterator[Lease]:
        """A lease of those tables that nobody else has."""
        with self._store.writing(durable=False) as c:
            taken = leases.take_free(c, names, seconds)
        with self._holding(taken, seconds):
            yield taken

    def ended(self, lease: Lease) -> None:
        """A publish has given it back."""
        self._ended.add(lease.token)

    def _wait_for(
        self,
        names: Collection[TableName],
        seconds: float,
        begin: Callable[[Connection], object] | None,
    ) -> Lease:
        """Queue up until the tables are free."""
        with self._store.writing(durable=False) as c:
            waiting = Waiting.begin(c)
            taken = leases.take(c, names, seconds, waiting)
            if isinstance(taken, Lease) and begin is not None:
                begin(c)
        if isinstance(taken, Lease):
            return taken
        try:
            while isinstance(taken, TableName):
                time.sleep(POLL_SECONDS)
                taken = self._take(names, seconds, None, waiting)
        except BaseException:
            with (
                suppress(AnabranchError),
                self._store.writing(durable=False) as c,
            ):  # it ends by itself
                leases.leave(c, waiting)
            raise
        return replace(taken, waited=True)

    @contextmanager
    def _holding(self, taken: Lease, seconds: float) -> Iterator[None]:
        token = taken.token
        with self._kept(token, seconds, lambda c: leases.renew(c, [token], seconds)):
            try:
                yield
            finally:
                if token in self._ended:
                    self._ended.discard(token)
                else:
                    with (
                        suppress(AnabranchError),
                        self._store.writing(durable=False) as c,
                    ):  # it ends by itself
                        leases.give_back(c, taken)

    def _take(
        self,
        names: Collection[TableName],
        seconds: float,
        begin: Callable[[Connection], object] | None = None,
        waiting: Waiting | None = None,
    ) -> Lease | TableName:
        with self._store.writing(durable=False) as c:
            taken = leases.take(c, names, seconds, waiting)
            if isinstance(taken, Lease) and begin is not None:
                begin(c)
            return taken

    @contextmanager
    def hold_cut(
        self, cut_id: int, seconds: float, *, all_files: bool = False
    ) -> Iterator[ReadLease | None]:
        """A read lease of a cut, or of all files; None when the cut is not recorded any more."""
        with self._store.writing(durable=False) as c:
            lease = read_leases.take(c, cut_id, seconds, all_files=all_files)
        if lease is None:
            yield None
            return
        with self._kept(lease.token, seconds, lambda c: read_leases.renew(c, lease.token, seconds)):
            try:
                yield lease
            finally:
                with (
                    suppress(AnabranchError),
                    self._store.writing(durable=False) as c,
                ):  # it ends by itself
                    read_leases.give_back(c, lease)

    @contextmanager
    def keep_deployment(
        self, deployment_id: str, owner: StageRow, seconds: float
    ) -> Iterator[None]:
        """Renew the lease of a deployment that the owner stages, and give it back at the end."""
        beat = partial(deployments.renew, deployment_id=deployment_id, owner=owner, seconds=seconds)
        with self._kept(f"{deployment_id} {owner.id}", seconds, beat):
            try:
                yield
            finally:
                with (
                    suppress(AnabranchError),
                    self._store.writing(durable=False) as c,
                ):  # it ends by itself
                    deployments.let_go(c, deployment_id, owner)

    def check_cut(self, lease: ReadLease) -> None:
        """Refuse to read a cut that upkeep was free to remove."""
        with self._store.reading() as c:
            held = read_leases.holds(c, lease)
        if not held:
            raise CutExpired(
                f"cut {lease.cut_id} is no longer held: this process stopped responding for longer "
                "than lease_time, and maintain has run",
                hint="open a cut again with at(); a longer lease_time survives longer pauses",
            )

    @contextmanager
    def _kept(self, token: str, seconds: float, beat: Beat) -> Iterator[None]:
        self._store.heartbeat.keep(token, max(seconds, 0.0) / 3, beat)
        try:
            yield
        finally:
            self._store.heartbeat.drop(token)
