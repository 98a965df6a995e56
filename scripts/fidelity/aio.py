# A server of asyncio that a client process asks over four connections, and a shell that it starts now and then.
import asyncio
import subprocess
import sys

ROUNDS, PORT = 400, 7780


async def answer(reader, writer):
    while line := await reader.readline():
        total = sum(k * k for k in range(200))
        writer.write(b"%d %d\n" % (len(line), total))
        await writer.drain()
    writer.close()


async def ask(number):
    reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
    for k in range(ROUNDS):
        writer.write(b"question %d of %d\n" % (k, number))
        await reader.readline()
    writer.close()


async def client():
    await asyncio.gather(*(ask(number) for number in range(4)))


async def server():
    listening = await asyncio.start_server(answer, "127.0.0.1", PORT)
    asking = await asyncio.create_subprocess_exec(sys.executable, __file__, "client")
    for _ in range(20):
        await asyncio.to_thread(subprocess.run, ["sh", "-c", "true; /bin/true"])
    await asking.wait()
    listening.close()


asyncio.run(client() if sys.argv[1:] else server())
