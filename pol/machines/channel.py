"""An authenticated channel between two machines of a group: the tensors within a step travel here.

All machines of a group have one key, which is made for the group and never reused. At the start, each end sends a hello
with its number and random bytes. Both ends derive a key for each direction from the group's key, from both hellos and
from the group's context (job and plan). So an end without the key, of another group, or with another number is refused,
and recorded frames of another connection are worthless.

A frame is 4 bytes with the length of the ciphertext, 8 bytes with the frame's number in its direction, and the
ciphertext (AES-256-GCM). Its nonce is the number, and the first 12 bytes are authenticated. The receiver knows from the
plan which arrays come next. So frames say nothing about their contents, any other length is refused, and memory is
allocated by the plan alone.
"""

import os
import queue
import struct
import threading
import time
from typing import Final

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from pol.machines.stream import LinkError, Stream
from pol.split.exchanges import Forms, Message
from pol.state.arrays import Array

KEY_SIZE: Final = 32
FRAME_BYTES: Final = 1 << 20
"""Largest number of bytes of arrays in a frame."""
_MAGIC: Final = b"assay/machines/1"
_HELLO: Final = struct.Struct(f">{len(_MAGIC)}sHH32s")
_HEAD: Final = struct.Struct(">IQ")
_TAG_SIZE: Final = 16


class Channel:
    """One end of a channel, after :meth:`open`. A thread sends, so that two machines can send each other at once."""

    def __init__(self, stream: Stream, sending: bytes, receiving: bytes, patience: float) -> None:
        self.name = stream.name
        self._stream, self._patience = stream, patience
        self._sending, self._receiving = AESGCM(sending), AESGCM(receiving)
        self._sent = self._received = 0
        self._waiting: queue.SimpleQueue[Message | threading.Event] = queue.SimpleQueue()
        self._problem: LinkError | None = None
        threading.Thread(target=self._send_all, name=f"to {stream.name}", daemon=True).start()

    @classmethod
    def open(cls, stream: Stream, own: int, other: int, key: bytes, context: bytes, patience: float) -> "Channel":
        """Return the channel of machine ``own`` to machine ``other``, after both ends have proved that they have the
        key.

        ``patience`` is the longest wait in seconds, here and for each later message. Raises LinkError if the other end
        is not this machine of this group.
        """
        deadline = time.monotonic() + patience
        hello = _HELLO.pack(_MAGIC, own, other, os.urandom(32))
        stream.write(hello, deadline)
        theirs = bytes(stream.read(_HELLO.size, deadline))
        magic, source, target, _ = _HELLO.unpack(theirs)
        if (magic, source, target) != (_MAGIC, other, own):
            raise LinkError(f"{stream.name} is not a machine of this group, or not machine {other}")
        salt = b"".join(sorted((hello, theirs)))
        sending, receiving = (
            HKDF(SHA256(), KEY_SIZE, salt, b"%d>%d " % way + context).derive(key)
            for way in ((own, other), (other, own))
        )
        channel = cls(stream, sending, receiving, patience)
        channel.send(())
        channel.receive(())
        return channel

    def send(self, message: Message) -> None:
        """Send a message in the background. Nothing may change its arrays until :meth:`flush` returns."""
        if self._problem is not None:
            raise self._problem
        self._waiting.put(message)

    def flush(self) -> None:
        """Wait until all messages were handed to the system. Raises LinkError if they cannot be."""
        done = threading.Event()
        self._waiting.put(done)
        done.wait(self._patience)
        if self._problem is not None:
            raise self._problem
        if not done.is_set():
            raise LinkError(f"{self.name} did not read its messages before the deadline")

    def receive(self, forms: Forms) -> Message:
        """Return the next message, whose arrays have these forms.

        Raises LinkError if it is not complete in time, or if a frame is not the next frame of the other end.
        """
        deadline = time.monotonic() + self._patience
        message = tuple(np.empty(form.shape, form.dtype) for form in forms)
        for array in message or (np.empty(0, np.uint8),):
            self._fill(array, deadline)
        return message

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()

    def _fill(self, array: Array, deadline: float) -> None:
        target = array.reshape(-1).view(np.uint8)
        for start in range(0, max(1, target.size), FRAME_BYTES):
            part = target[start : start + FRAME_BYTES]
            part[:] = np.frombuffer(self._frame(part.size, deadline), np.uint8)
        if array.dtype == np.bool_ and target.size and target.max() > 1:
            raise LinkError(f"{self.name} sent a truth value that is neither 0 nor 1")

    def _frame(self, size: int, deadline: float) -> bytes:
        """Return the contents of the next frame, which are ``size`` bytes."""
        head = bytes(self._stream.read(_HEAD.size, deadline))
        length, number = _HEAD.unpack(head)
        if number != self._received:
            raise LinkError(f"{self.name} sent frame {number} instead of frame {self._received}")
        if length != size + _TAG_SIZE:
            raise LinkError(f"{self.name} sent a frame of {length} bytes instead of {size + _TAG_SIZE}")
        sealed = self._stream.read(length, deadline)
        try:
            data = self._receiving.decrypt(_nonce(number), sealed, head)
        except InvalidTag:
            raise LinkError(f"{self.name} sent a frame that this group's key did not seal") from None
        self._received += 1
        return data

    def _send_all(self) -> None:
        while True:
            entry = self._waiting.get()
            if isinstance(entry, threading.Event):
                entry.set()
            elif self._problem is None:
                try:
                    self._write_all(entry)
                except LinkError as error:
                    self._problem = error
            # Otherwise the last message would stay in memory until the next one comes.
            del entry

    def _write_all(self, message: Message) -> None:
        deadline = time.monotonic() + self._patience
        for array in message or (np.empty(0, np.uint8),):
            self._write(array, deadline)

    def _write(self, array: Array, deadline: float) -> None:
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        for start in range(0, max(1, data.size), FRAME_BYTES):
            part = data[start : start + FRAME_BYTES]
            head = _HEAD.pack(part.size + _TAG_SIZE, self._sent)
            sealed = self._sending.encrypt(_nonce(self._sent), part.data if part.size else b"", head)
            self._stream.write(head, deadline)
            self._stream.write(sealed, deadline)
            self._sent += 1


def _nonce(number: int) -> bytes:
    return number.to_bytes(12, "big")
