package org.apache.iceberg.rest;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.rest.responses.ErrorResponse;
import org.apache.iceberg.rest.responses.LoadTableResponse;
import org.apache.iceberg.util.Pair;

/**
 * Iceberg's own catalog over HTTP: its RESTCatalogAdapter and CatalogHandlers before its JdbcCatalog, on 127.0.0.1.
 *
 * <p>Requirements and updates of a commit are checked and applied by Iceberg's code alone; this only carries requests
 * to it. Properties of the JdbcCatalog come on standard input, since there are secrets among them. The one argument is
 * the port, 0 for any that is free; which one it is stands on standard output as soon as it listens.
 *
 * <p>It stands in the package of the adapter, whose entry points are open to its package only.
 */
public final class ReferenceCatalog {
  private final RESTCatalogAdapter adapter;

  private ReferenceCatalog(RESTCatalogAdapter adapter) {
    this.adapter = adapter;
  }

  public static void main(String[] args) throws Exception {
    int port = Integer.parseInt(args[0]);
    Properties given = new Properties();
    given.load(System.in);
    Map<String, String> properties = new HashMap<>();
    given.stringPropertyNames().forEach(name -> properties.put(name, given.getProperty(name)));

    Catalog catalog =
        CatalogUtil.loadCatalog(JdbcCatalog.class.getName(), "reference", properties, new Configuration());
    ReferenceCatalog reference = new ReferenceCatalog(new RESTCatalogAdapter(catalog));

    HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getByName("127.0.0.1"), port), 0);
    server.createContext("/", reference::serve);
    server.setExecutor(Executors.newCachedThreadPool());
    server.start();
    System.out.println("port=" + server.getAddress().getPort());
    System.out.flush();
  }

  private void serve(HttpExchange exchange) throws IOException {
    int status = 200;
    byte[] answer = new byte[0];
    try (exchange) {
      AtomicReference<ErrorResponse> refused = new AtomicReference<>();
      try {
        Object body = answer(exchange, refused);
        if (body != null) {
          answer = RESTObjectMapper.mapper().writeValueAsBytes(body);
        } else {
          status = 204;
        }
      } catch (Exception failure) {
        // The adapter throws after it has told what it refuses.
        ErrorResponse error = refused.get();
        if (error == null) {
          failure.printStackTrace();
          error = error(500, failure.getClass().getSimpleName(), String.valueOf(failure.getMessage()));
        }
        status = error.code();
        answer = RESTObjectMapper.mapper().writeValueAsBytes(error);
      }
      boolean bodyless = status == 204 || exchange.getRequestMethod().equals("HEAD");
      exchange.getResponseHeaders().set("Content-Type", "application/json");
      exchange.sendResponseHeaders(status, bodyless ? -1 : answer.length);
      if (!bodyless) {
        exchange.getResponseBody().write(answer);
      }
    }
  }

  private Object answer(HttpExchange exchange, AtomicReference<ErrorResponse> refused) throws IOException {
    HTTPRequest.HTTPMethod method;
    try {
      method = HTTPRequest.HTTPMethod.valueOf(exchange.getRequestMethod());
    } catch (IllegalArgumentException unknown) {
      return refuse(refused, error(405, "BadRequestException", "No such method: " + exchange.getRequestMethod()));
    }
    String path = exchange.getRequestURI().getRawPath().substring(1);
    Pair<RESTCatalogAdapter.Route, Map<String, String>> found = RESTCatalogAdapter.Route.from(method, path);
    if (found == null) {
      return refuse(refused, error(400, "BadRequestException", "No route for request: " + method + " " + path));
    }
    RESTCatalogAdapter.Route route = found.first();

    Object body = null;
    try (InputStream sent = exchange.getRequestBody()) {
      if (route.requestClass() != null) {
        body = RESTObjectMapper.mapper().readValue(sent, route.requestClass());
      } else if (route == RESTCatalogAdapter.Route.TOKENS) {
        body = RESTUtil.decodeFormData(new String(sent.readAllBytes(), StandardCharsets.UTF_8));
      }
    } catch (com.fasterxml.jackson.core.JsonProcessingException malformed) {
      return refuse(refused, error(400, "BadRequestException", "Malformed request: " + malformed.getOriginalMessage()));
    }

    Map<String, String> query = query(exchange.getRequestURI().getRawQuery());
    Map<String, String> headers = new HashMap<>();
    exchange.getRequestHeaders().forEach((name, values) -> headers.put(name, values.get(0)));
    HTTPRequest request = adapter.buildRequest(method, path, query, headers, body);
    Object response = adapter.execute(request, route.responseClass(), refused::set, unused -> {});
    if (response instanceof LoadTableResponse && "refs".equals(query.get("snapshots"))) {
      return onlyRefs((LoadTableResponse) response);
    }
    return response;
  }

  /** The adapter of this version knows no snapshots=refs. */
  private static LoadTableResponse onlyRefs(LoadTableResponse all) {
    TableMetadata metadata = all.tableMetadata();
    java.util.Set<Long> heads = new java.util.HashSet<>();
    metadata.refs().values().forEach(ref -> heads.add(ref.snapshotId()));
    TableMetadata fewer = metadata.removeSnapshotsIf(snapshot -> !heads.contains(snapshot.snapshotId()));
    TableMetadata unchanged =
        TableMetadata.buildFrom(fewer).withMetadataLocation(all.metadataLocation()).discardChanges().build();
    return LoadTableResponse.builder().withTableMetadata(unchanged).addAllConfig(all.config()).build();
  }

  private static Object refuse(AtomicReference<ErrorResponse> refused, ErrorResponse error) {
    refused.set(error);
    throw new IllegalArgumentException(error.message());
  }

  private static ErrorResponse error(int status, String type, String message) {
    return ErrorResponse.builder().responseCode(status).withType(type).withMessage(message).build();
  }

  private static Map<String, String> query(String raw) {
    Map<String, String> query = new HashMap<>();
    for (String pair : raw == null ? new String[0] : raw.split("&")) {
      int at = pair.indexOf('=');
      String name = at < 0 ? pair : pair.substring(0, at);
      String value = at < 0 ? "" : pair.substring(at + 1);
      query.put(URLDecoder.decode(name, StandardCharsets.UTF_8), URLDecoder.decode(value, StandardCharsets.UTF_8));
    }
    return query;
  }
}
